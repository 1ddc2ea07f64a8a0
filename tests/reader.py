"""What tests of data share: a reader without settings of their own, and the real files."""

import os
from pathlib import Path

import pytest

from rankbook.data import sources

REAL = os.environ.get("RANKBOOK_DATA")  # read before `clean` takes it away; unasked, none sees it


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """Take the reader's settings away; ids are kept in a folder of the test's own."""
    for name in ("RANK", "RANKBOOK_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANKBOOK_CACHE", str(tmp_path / "cache"))
    sources.announce.cache_clear()


@pytest.fixture
def real_data(monkeypatch):
    """Return a function that points RANKBOOK_DATA at the real files, if `folder` is there."""

    def use(folder: str) -> Path:
        if not REAL or not (Path(REAL) / folder).is_dir():
            pytest.skip(f"RANKBOOK_DATA has no {folder}: this test needs the real files")
        monkeypatch.setenv("RANKBOOK_DATA", str(Path(REAL).absolute()))
        return Path(REAL) / folder

    return use
