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
EXECUTED = "Executed notebook"


@pytest.fixture
def book(tmp_path):
    """A copy of the book's machinery with a front page and one chapter a language."""
    ignore = shutil.ignore_patterns("en", "zh", "results", "__pycache__", "vendor")
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=ignore)
    shutil.copy(ROOT / "_config.yml", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "part.py").write_text("answer = 41\n")
    for language in ("en", "zh"):
        pages = tmp_path / "book" / language
        pages.mkdir()
        (pages / "index.md").write_text("# Front\n\nText.\n", "utf-8")
        chapters = [{"file": f"chapters/{language}/01_part"}]
        toc = {"format": "jb-book", "root": f"book/{language}/index", "chapters": chapters}
        path = tmp_path / "_toc.yml" if language == "en" else pages / "_toc.yml"
        path.write_text(yaml.safe_dump(toc))
    shutil.copy(ROOT / "book" / "zh" / "_config.yml", tmp_path / "book" / "zh")
    write_chapter(tmp_path, "print('six times seven')")
    return tmp_path


def write_chapter(root: Path, source: str) -> None:
    for language in ("en", "zh"):
        cell = {"cell_type": "code", "id": "part", "metadata": {}, "source": source}
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
        (folder / "01_part.ipynb").write_text(json.dumps(notebook), "utf-8")


def build(root: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(root / "book" / "build.py")]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_built_once_executed_once(book):
    first = build(book)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count(EXECUTED) == 1, "both languages share one execution"
    again = build(book)
    assert again.returncode == 0
    assert EXECUTED not in again.stdout
    assert again.stdout.count("up to date") == 2

    (book / "src" / "part.py").write_text("answer = 42\n")
    changed = build(book)
    assert changed.stdout.count(EXECUTED) == 1, "a changed library executes the chapters again"
    assert len(list((book / "_build" / "cache").iterdir())) == 1, "the old cache is gone"

    (book / "book" / "zh" / "index.md").write_text("# 首页\n\n别的。\n", "utf-8")
    translated = build(book)
    assert "English: up to date" in translated.stdout
    assert "Chinese: built" in translated.stdout and EXECUTED not in translated.stdout


def test_the_build_takes_what_nbmake_has_executed(book):
    for part in ("chapters/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / part, book / part)
    command = [sys.executable, "-m", "pytest", "chapters/zh", "--nbmake", "-q"]
    (book / "_build").mkdir()
    with (book / "_build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as another chapter does that is kept at the same time
        tested = subprocess.run(command, cwd=book, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    built = build(book)
    assert built.returncode == 0, built.stdout + built.stderr
    assert EXECUTED not in built.stdout, "both languages have the same code"
    page = (book / "_build" / "html" / "en" / "chapters" / "en" / "01_part.html").read_text("utf-8")
    assert re.search(r'class="output .*six times seven', page, re.DOTALL)


def test_failing_chapter_fails_the_build_every_time(book):
    write_chapter(book, "wrong = 1\nraise ValueError('no rank here')")
    for _ in range(2):
        failed = build(book)
        assert failed.returncode == 1
        assert "chapters/en/01_part failed" in failed.stdout
        assert "raise ValueError('no rank here')" in failed.stdout, "the cell"
        assert re.search(r"^ValueError: no rank here", failed.stdout, re.MULTILINE), "the error"


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
