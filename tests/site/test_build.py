"""The build itself, on a small book: what fails is shown, what is stale is executed again."""

import fcntl
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PART = "import sys\nsys.path.insert(0, '../../src')\nimport part\nprint('six times', part.seven)"
ON_PURPOSE = """import subprocess, sys
wrong = "raise AttributeError(\\"Can't get attribute 'worker'\\")"
subprocess.run([sys.executable, "-c", wrong])
raise ValueError("on purpose")"""


@pytest.fixture
def book(tmp_path):
    """A copy of the book's machinery with a front page and one chapter a language."""
    ignore = shutil.ignore_patterns("en", "zh", "results", "__pycache__", "vendor")
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=ignore)
    shutil.copy(ROOT / "_config.yml", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "part.py").write_text("seven = 7\n")
    (tmp_path / "book" / "redirects.yml").write_text("chapters/old: chapters/01_part\n")
    for language in ("en", "zh"):
        pages = tmp_path / "book" / language
        pages.mkdir()
        (pages / "index.md").write_text("# Front\n\nText.\n", "utf-8")
        chapters = [{"file": f"chapters/{language}/01_part"}]
        toc = {"format": "jb-book", "root": f"book/{language}/index", "chapters": chapters}
        path = tmp_path / "_toc.yml" if language == "en" else pages / "_toc.yml"
        path.write_text(yaml.safe_dump(toc))
    shutil.copy(ROOT / "book" / "zh" / "_config.yml", tmp_path / "book" / "zh")
    write_chapter(tmp_path, PART)
    return tmp_path


def write_chapter(root: Path, source: str, name: str = "01_part", **metadata) -> None:
    """The chapter with one cell in both languages; metadata: the cell's."""
    for language in ("en", "zh"):
        cell = {"cell_type": "code", "id": "part", "metadata": metadata, "source": source}
        cell |= {"execution_count": None, "outputs": []}
        title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Part\n\nA."}
        notebook = {
            "cells": [title, cell],
            "metadata": {
                "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python", "pygments_lexer": "ipython3"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        folder = root / "chapters" / language
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook), "utf-8")


def build(root: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(root / "book" / "build.py")]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def execute(root: Path) -> subprocess.CompletedProcess:
    """What the build does before it comes to the pages."""
    (root / "_build").mkdir(exist_ok=True)
    command = [sys.executable, "-c", "import build; build.executions(['en', 'zh'])"]
    return subprocess.run(command, cwd=root / "book", capture_output=True, text=True)


def page(root: Path, language: str, name: str = "01_part") -> str:
    folder = root / "_build" / "html" / language / "chapters" / language
    return (folder / f"{name}.html").read_text("utf-8")


def executed(done: subprocess.CompletedProcess) -> list[str]:
    """The chapters that a build executed, in its own words; Jupyter Book executes none."""
    assert "Executed notebook" not in done.stdout, done.stdout
    return re.findall(r"^  (\w+): \d+ s, \d+ left$", done.stdout, re.MULTILINE)


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


def test_executed_only_when_what_it_imports_changed(book):
    part = book / "src" / "part.py"
    assert executed(execute(book)) == ["01_part"]
    part.write_text('"""A part."""\nseven = 7  # as it was\n')
    assert executed(execute(book)) == [], "words about the code change nothing"
    part.write_text("seven = 14 / 2\n")
    assert executed(execute(book)) == ["01_part"]
    part.write_text("seven = 7\n")
    assert executed(execute(book)) == [], "older executions are kept"


def test_the_build_takes_what_nbmake_has_executed(book):
    for part in ("chapters/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / part, book / part)
    command = [sys.executable, "-m", "pytest", "chapters/zh", "--nbmake", "-q"]
    (book / "_build").mkdir()
    with (book / "_build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a build goes on; it stops no test, and no test stops it
        tested = subprocess.run(command, cwd=book, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    built = build(book)
    assert built.returncode == 0, built.stdout + built.stderr
    assert executed(built) == [], "both languages have the same code"
    assert re.search(r'class="output .*six times 7', page(book, "en"), re.DOTALL)


def test_failing_chapter_fails_the_build_every_time(book):
    write_chapter(book, "wrong = 1\nraise ValueError('no rank here')")
    write_chapter(book, PART, "02_other")
    for others in (["02_other"], []):  # it is tried although the first one fails, and kept
        failed = build(book)
        assert sorted(executed(failed)) == ["01_part", *others]
        assert failed.returncode == 1
        assert "chapters/en/01_part failed in cell 'part'" in failed.stdout
        assert "raise ValueError('no rank here')" in failed.stdout, "the cell"
        assert re.search(r"^ValueError: no rank here", failed.stdout, re.MULTILINE), "the error"


def test_what_a_chapter_shows_on_purpose_is_no_error_of_the_build(book):
    write_chapter(book, ON_PURPOSE, tags=["raises-exception"])
    done = build(book)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr
    assert "on purpose" in page(book, "en")


def test_old_addresses_lead_to_the_new_ones(book):
    assert build(book).returncode == 0
    old = page(book, "zh", "old")
    assert '<a href="01_part.html">Part</a>' in old and 'url=01_part.html"' in old
    index = book / "_build" / "html" / "zh" / "searchindex.js"
    assert "01_part" in index.read_text("utf-8") and "chapters/zh/old" not in index.read_text(
        "utf-8"
    )


def test_warning_fails_the_build(book):
    (book / "book" / "en" / "index.md").write_text("# Front\n\n[](nowhere.md)\n", "utf-8")
    failed = build(book)
    assert failed.returncode == 1
    assert "WARNING" in failed.stdout and "nowhere.md" in failed.stdout


def test_kernel_is_this_environments(book):
    source = f"import sys\nassert sys.prefix == {sys.prefix!r}, sys.prefix"
    write_chapter(book, source)
    done = build(book)
    assert done.returncode == 0, done.stdout
