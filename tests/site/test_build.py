"""The build itself, on a small book: what fails is shown, what is stale is executed again."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
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
    write_cells(root, {"part": source}, name, **metadata)


def write_cells(root: Path, sources: dict[str, str], name: str = "01_part", **metadata) -> None:
    """The chapter with these cells, by their ids, in both languages; metadata: every cell's."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Part\n\nA."}
    cells = [title]
    for cell, source in sources.items():
        cells.append({"cell_type": "code", "id": cell, "metadata": metadata, "source": source,
                      "execution_count": None, "outputs": []})  # fmt: skip
    for language in ("en", "zh"):
        notebook = {
            "cells": cells,
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


def build(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(root / "book" / "build.py"), *options]
    variables = {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=variables
    )


def execute(root: Path) -> subprocess.CompletedProcess:
    """What the build does before it comes to the pages."""
    command = [sys.executable, "-c", "import build; build.executions(['en', 'zh'])"]
    return subprocess.run(command, cwd=root / "book", capture_output=True, text=True)


def page(root: Path, language: str, name: str = "01_part") -> str:
    folder = root / "_build" / "html" / language / "chapters" / language
    return (folder / f"{name}.html").read_text("utf-8")


def executed(done: subprocess.CompletedProcess) -> list[str]:
    """The chapters that a build executed, in its own words; Jupyter Book executes none."""
    assert "Executed notebook" not in done.stdout, done.stdout
    row = r"^  (\w+): (?:stopped after )?\d+ s, \d+ left \(\d+ min\)$"
    return re.findall(row, done.stdout, re.MULTILINE)


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


def test_a_changed_sentence_is_read_alone(book):
    assert build(book).returncode == 0
    (book / "book" / "en" / "index.md").write_text("# Front, anew\n\nOther words.\n", "utf-8")
    assert build(book).returncode == 0
    log = (book / "_build" / "en" / "build.log").read_text("utf-8")
    assert "0 added, 1 changed, 0 removed" in log
    assert "Front, anew" in page(book, "en"), "its title stands in the contents of the others"
    made = tree(book)
    assert build(book, "--all").returncode == 0
    assert tree(book) == made, "what was read before makes the same pages"


def tree(root: Path) -> dict[str, bytes]:
    """Every file of the site with what is in it."""
    site = root / "_build" / "html"
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


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


def test_a_chapter_that_stops_is_shown_up_to_there(book):
    """A book all the same: with a mark, a list at the end, and exit status 1, every time."""
    write_cells(book, {"before": "print(6 * 7)", "wrong": "raise ValueError('no rank here')",
                       "after": "print(6 * 9)"})  # fmt: skip
    write_chapter(book, PART, "02_other")
    for others in (["02_other"], []):  # it is tried although the first one fails, and kept
        failed = build(book)
        assert sorted(executed(failed)) == ["01_part", *others]
        assert failed.returncode == 1
        assert "1 page stopped on this machine" in failed.stdout
        assert "01_part stopped in cell 'wrong'" in failed.stdout
        assert "  why: ValueError: no rank here\n  log: _build/logs/en-01_part.log" in failed.stdout
        assert re.search(r"^  what to do: .+", failed.stdout, re.MULTILINE)
        for language, mark in (("en", "This page stopped"), ("zh", "本页没有运行完")):
            shown = page(book, language)
            assert re.search(f"{mark}.*>wrong<.*no rank here", shown, re.DOTALL), shown
            assert ">42\n" in shown and ">54\n" not in shown
            assert "Last verified" not in shown and "最近一次验证" not in shown
    write_cells(book, {"before": "print(6 * 7)"})
    mended = build(book)
    assert mended.returncode == 0 and "stopped" not in mended.stdout
    assert "stopped" not in page(book, "en")


def test_a_chapter_whose_process_dies_is_tried_once_more(book):
    write_cells(book, {"first": "print(1)", "dies": "import os\nos.kill(os.getpid(), 9)"})
    failed = build(book)
    assert failed.returncode == 1
    assert "01_part stopped in cell 'dies' (tried twice)" in failed.stdout
    assert "the notebook's kernel ended" in failed.stdout
    once = book / "once"
    write_cells(
        book,
        {
            "dies": f"""import os, pathlib
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    os.kill(os.getpid(), 9)
print("alive")"""
        },
    )
    done = build(book)
    assert done.returncode == 0, done.stdout + done.stderr
    assert executed(done) == ["01_part"] and "alive" in page(book, "zh")


def test_what_does_not_get_on_is_ended_and_what_does_is_not(book):
    """By no clock: the second cell works for longer than the first one waits."""
    write_cells(book, {"waits": "import time\ntime.sleep(3600)"})
    works = "import time\nuntil = time.process_time() + 8\nwhile time.process_time() < until: pass"
    write_chapter(book, works, "02_other")
    done = build(book, RANKBOOK_STALLED_AFTER="4")
    assert done.returncode == 1
    assert "01_part stopped in cell 'waits'" in done.stdout and "02_other: " in done.stdout
    assert "nothing in it got on for 4 s" in done.stdout
    assert "RANKBOOK_STALLED_AFTER=1800 make book" in done.stdout
    assert "02_other stopped" not in done.stdout
    wrong = build(book, RANKBOOK_STALLED_AFTER="soon")
    assert "RANKBOOK_STALLED_AFTER=soon is no number of seconds" in wrong.stdout + wrong.stderr


ENDLESS = """import os, pathlib, subprocess, sys, time
%load_ext rankbook
%ranks start -n 2
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
pathlib.Path({ready!r}).touch()
time.sleep(3600)"""


@pytest.mark.parametrize("how", ["INT", "TERM", "KILL", "KILL of make"])
def test_an_interrupted_build_leaves_nothing_and_the_next_goes_on(book, tmp_path, how):
    """No process, no lock; one sentence where there is time for one; what was executed is kept."""
    ready, first = tmp_path / "ready", "print('first')"
    write_chapter(book, first, "02_other")
    write_chapter(book, ENDLESS.format(ready=str(ready)))
    (book / "_build").mkdir()
    mark = f"{book}-{how}"
    build_it = [sys.executable, str(book / "book" / "build.py")]
    supervise = [sys.executable, str(book / "book" / "supervise.py"), *build_it]
    made = ["sh", "-c", '"$@"; true', "sh", *supervise]  # as make: a process between
    process = subprocess.Popen(
        made if how == "KILL of make" else build_it,
        env={**os.environ, "BUILD_MARK": mark}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    kept = book / "_build" / "executions" / "02_other"
    assert until(
        lambda: (ready.exists() and any(kept.glob("*.ipynb"))) or process.poll() is not None
    )
    assert process.poll() is None and len(marked(mark)) > 5
    process.send_signal(getattr(signal, f"SIG{how.split()[0]}"))
    said, _ = process.communicate()
    assert until(lambda: not marked(mark)), marked(mark)
    assert "Traceback" not in said
    if not how.startswith("KILL"):
        assert process.returncode == 128 + getattr(signal, f"SIG{how}")
        assert f"Ended by SIG{how}. 1 executed chapters are kept" in said
    write_chapter(book, "print('last')")
    assert executed(execute(book)) == ["01_part"]


def test_a_second_build_says_for_whom_it_waits(book):
    (book / "_build").mkdir()
    with (book / "_build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 4711, since 12:00:00")
        lock.flush()
        command = [sys.executable, "-u", str(book / "book" / "build.py")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            line = second.stdout.readline()
            second.terminate()
            rest = second.stdout.read()
    assert line == "Waiting for another build in this checkout: process 4711, since 12:00:00\n"
    assert "Ended by SIGTERM" in rest and second.returncode == 128 + signal.SIGTERM


def until(holds, seconds: float = 600) -> bool:
    """Wait until it holds; the limit ends a hang, nothing else."""
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return bool(found)


def marked(mark: str) -> list[str]:
    """What carries the mark and still runs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("BUILD_MARK") == mark and process.status() != "zombie":
                found.append(f"{process.pid} {process.name()} {process.cmdline()}")
    return found


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
