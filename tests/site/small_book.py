"""A book of one chapter, to build whole: what its tests write, run and read."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PART = "import sys\nsys.path.insert(0, '../../src')\nimport part\nprint('six times', part.seven)"


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
