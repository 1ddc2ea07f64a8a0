"""Executions are kept under their keys: the newest few, whole, and only what is surely right."""

import json
import os

import executed
import nbformat
import pytest

CELL = {"cell_type": "code", "id": "part", "metadata": {}, "source": "print(1)"}
CELL |= {"outputs": [], "execution_count": 1}
NOTEBOOK = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A notebook whose key is what stands in the file ``key`` beside it."""
    monkeypatch.setattr(executed, "STORE", tmp_path / "store")
    path = tmp_path / "11_ring.ipynb"
    path.write_text(json.dumps(NOTEBOOK))
    key = tmp_path / "key"

    class Keys:
        def __init__(self, root):
            pass

        def of(self, path):
            return key.read_text()

    monkeypatch.setattr(executed, "Keys", Keys)
    return path


def keep(chapter, key: str, now: str = "", seconds: float = 1.5) -> bool:
    """Keep an execution begun under `key` while the key is `now`, by default the same."""
    chapter.with_name("key").write_text(now or key)
    notebook = nbformat.from_dict(NOTEBOOK)
    notebook.cells[0].metadata["execution"] = {"iopub.status.idle": "2026-11-21T10:00:00Z"}
    return executed.keep(chapter, key, notebook, seconds)


def test_kept_and_found(chapter):
    assert executed.find(chapter, "a") is None
    assert keep(chapter, "a")
    notebook = executed.read(executed.find(chapter, "a"))
    assert notebook.metadata.executed.seconds == 1.5 and len(notebook.metadata.executed.date) == 10
    assert notebook.cells[0].metadata == {}, "times are no part of the input"
    assert executed.find(chapter, "b") is None


def test_what_changed_meanwhile_is_not_kept(chapter):
    assert not keep(chapter, "a", now="b")
    assert executed.find(chapter, "a") is None and executed.find(chapter, "b") is None


def test_the_newest_are_kept(chapter):
    for number in range(executed.KEPT):
        keep(chapter, f"k{number}")
        os.utime(executed.STORE / "11_ring" / f"k{number}.ipynb", (number, number))
    assert executed.find(chapter, "k0"), "and with that it is the newest"
    keep(chapter, "new")
    assert executed.find(chapter, "k0") and executed.find(chapter, "new")
    assert executed.find(chapter, "k1") is None
    assert len(list((executed.STORE / "11_ring").iterdir())) == executed.KEPT


def test_expected_seconds_are_those_of_the_last_time(chapter):
    guess = executed.expected_seconds(chapter)
    keep(chapter, "a", seconds=77)
    assert executed.expected_seconds(chapter) == 77 != guess
