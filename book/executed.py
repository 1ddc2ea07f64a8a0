"""Executed chapters, kept under the hash of all that their outputs depend on.

Whoever executes a chapter keeps it here, the build as well as nbmake in a test run; whoever needs
one looks here first. Of each chapter the newest few are kept: going back to an older state of the
sources executes nothing.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from build_record import page_seconds
from execution.outcome import Outcome
from fingerprint import OUT, ROOT, Keys
from nbformat import NotebookNode

STORE = OUT / "executions"
STOPPED = OUT / "stopped"  # chapters of which a cell failed, up to that cell
KEPT = 6  # executions of a chapter


def find(chapter: Path, key: str) -> Path | None:
    """The execution of the notebook `chapter` under `key`, if there is one; it counts as new."""
    path = STORE / chapter.stem / f"{key}.ipynb"
    if not path.exists():
        return None
    path.touch()
    return path


def read(path: Path) -> NotebookNode:
    """A kept notebook; `seconds` and `date` of its execution are in ``metadata.executed``."""
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def keep(chapter: Path, key: str, notebook: NotebookNode, seconds: float) -> bool:
    """Keep an execution of the notebook `chapter` that was begun under `key`.

    notebook: with outputs, as nbclient left it. False where the sources changed in the meantime:
    nobody knows which of them it shows.
    """
    if Keys(ROOT).of(chapter) != key:
        return False
    folder = STORE / chapter.stem
    _write(notebook, {"seconds": seconds}, folder / f"{key}.ipynb")
    for old in sorted(folder.glob("*.ipynb"), key=_age)[KEPT:]:
        old.unlink(missing_ok=True)
    return True


def keep_stopped(chapter: Path, key: str, notebook: NotebookNode, outcome: Outcome) -> None:
    """Keep an execution that failed, for the page; nobody takes it for a whole one."""
    failure = outcome.failure
    assert failure is not None
    facts = {"seconds": outcome.seconds, "stopped": {"cell": failure.cell, "why": failure.reason}}
    _write(notebook, facts, STOPPED / chapter.stem / f"{key}.ipynb")


def find_stopped(chapter: Path, key: str) -> Path | None:
    """The execution of the notebook `chapter` under `key` that failed, if there is one."""
    path = STOPPED / chapter.stem / f"{key}.ipynb"
    return path if path.exists() else None


def expected_seconds(chapter: Path) -> float:
    """How long the notebook `chapter` will take: what it last took here, or where it was measured.

    Without either, a guess from its length.
    """
    kept = sorted((STORE / chapter.stem).glob("*.ipynb"), key=_age)
    if kept:
        return read(kept[0]).metadata.executed.seconds
    return page_seconds(chapter.stem) or chapter.read_text("utf-8").count("\n") / 20


def _write(notebook: NotebookNode, facts: dict, path: Path) -> None:
    """Write the notebook with the `facts` of its execution, whole or not at all."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which are no part of the input
    notebook.metadata["executed"] = {**facts, "date": datetime.now(UTC).date().isoformat()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        nbformat.write(notebook, file)
    Path(file.name).replace(path)  # whoever else keeps one


def _age(path: Path) -> float:
    return -path.stat().st_mtime
