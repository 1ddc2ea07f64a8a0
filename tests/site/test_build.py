"""The build itself, on a small book: what is stale is executed and read again, and nothing else."""

import fcntl
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.small_book import ROOT, build, execute, executed, page, write_chapter


def test_built_once_executed_once(book):
    first = build(book)
    assert first.returncode == 0, first.stdout + first.stderr
    assert executed(first) == ["01_part"], "both languages share one execution"
    for language in ("en", "zh"):
        assert re.search(r'class="output .*six times 7', page(book, language), re.DOTALL)
    again = build(book)
    assert again.returncode == 0
    assert executed(again) == []
    assert again.stdout.count("up to date") == 2

    (book / "src" / "part.py").write_text("seven = 14 / 2\n")
    changed = build(book)
    assert executed(changed) == ["01_part"], "what a chapter imports is different"
    assert "six times 7.0" in page(book, "zh")

    (book / "book" / "zh" / "index.md").write_text("# 首页\n\n别的。\n", "utf-8")
    translated = build(book)
    assert "English: up to date" in translated.stdout
    assert "Chinese: pages built" in translated.stdout and executed(translated) == []


@pytest.mark.long
def test_a_changed_sentence_is_read_and_written_alone(book):
    front, chapter = (book / "book" / "en" / "index.md", book / "chapters" / "en" / "01_part.ipynb")
    was = chapter.read_text("utf-8").replace("A.", "A.\\n\\n```{index} ring\\n```")
    chapter.write_text(was, "utf-8")
    assert build(book).returncode == 0
    log = book / "_build" / "en" / "build.log"

    front.write_text("# Front\n\nText. Another.\n", "utf-8")
    assert build(book).returncode == 0
    assert "0 added, 1 changed, 0 removed" in log.read_text("utf-8")
    assert "targets for 1 source files" in log.read_text("utf-8")
    assert "Another." in front_page(book)
    assert '"ring"' in index(book), "the other page's entries stay in the search"
    same_as_all_anew(book)

    chapter.write_text(was.replace("# Part", "# A part"), "utf-8")
    assert build(book).returncode == 0
    assert "2 added, 0 changed, 0 removed" in log.read_text("utf-8")
    assert "A part" in front_page(book), "its title stands in the contents of the others"
    same_as_all_anew(book)


def same_as_all_anew(book) -> None:
    """What was left as it was is what a build of all pages makes."""
    made = tree(book)
    assert build(book, "--all").returncode == 0
    assert tree(book) == made


def front_page(book) -> str:
    return (book / "_build" / "html" / "en" / "book" / "en" / "index.html").read_text("utf-8")


def index(book) -> str:
    """The names that the search of the English pages knows."""
    text = (book / "_build" / "html" / "en" / "searchindex.js").read_text("utf-8")
    return re.search(r'"indexentries": {[^}]*}', text)[0]


def tree(root: Path) -> dict[str, bytes]:
    """Every file of the site with what is in it."""
    site = root / "_build" / "html"
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


@pytest.mark.long
def test_executed_only_when_what_it_imports_changed(book):
    part = book / "src" / "part.py"
    assert executed(execute(book)) == ["01_part"]
    part.write_text('"""A part."""\nseven = 7  # as it was\n')
    assert executed(execute(book)) == [], "words about the code change nothing"
    part.write_text("seven = 14 / 2\n")
    assert executed(execute(book)) == ["01_part"]
    part.write_text("seven = 7\n")
    assert executed(execute(book)) == [], "older executions are kept"


@pytest.mark.long
def test_the_build_takes_what_nbmake_has_executed(book):
    for part in ("chapters/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / part, book / part)
    command = [sys.executable, "-m", "pytest", "chapters/en", "--nbmake", "-q"]
    (book / "_build").mkdir()
    with (book / "_build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a build goes on; it stops no test, and no test stops it
        tested = subprocess.run(command, cwd=book, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    built = build(book)
    assert built.returncode == 0, built.stdout + built.stderr
    assert executed(built) == [], "both languages have the same code"
    assert re.search(r'class="output .*six times 7', page(book, "en"), re.DOTALL)


@pytest.mark.long
def test_old_addresses_lead_to_the_new_ones(book):
    assert build(book).returncode == 0
    old = page(book, "zh", "old")
    assert '<a href="01_part.html">Part</a>' in old and 'url=01_part.html"' in old
    index = book / "_build" / "html" / "zh" / "searchindex.js"
    assert "01_part" in index.read_text("utf-8") and "chapters/zh/old" not in index.read_text(
        "utf-8"
    )


@pytest.mark.long
def test_warning_fails_the_build(book):
    (book / "book" / "en" / "index.md").write_text("# Front\n\n[](nowhere.md)\n", "utf-8")
    failed = build(book)
    assert failed.returncode == 1
    assert "WARNING" in failed.stdout and "nowhere.md" in failed.stdout


@pytest.mark.long
def test_kernel_is_this_environments(book):
    source = f"import sys\nassert sys.prefix == {sys.prefix!r}, sys.prefix"
    write_chapter(book, source)
    done = build(book)
    assert done.returncode == 0, done.stdout
