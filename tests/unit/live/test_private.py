"""Directories of a notebook, and what they leave."""

import os
import subprocess
import sys

from rankbook.live import private
from tests.waiting import SOON


def test_what_a_killed_notebook_left_is_tidied(tmp_path, monkeypatch):
    """Directories, and processes that were started for them; of others, nothing."""
    monkeypatch.setattr(private.tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f"rankbook-test-{dead.pid}-abc"
    ours = tmp_path / f"rankbook-test-{os.getpid()}-abc"
    left.mkdir()
    ours.mkdir()
    orphan = subprocess.Popen(["sleep", "3600"], env={private.MARK: str(left)})
    child = subprocess.Popen(["sleep", "3600"], env={private.MARK: str(ours)})
    try:
        made = private.private_directory("test")
        assert orphan.wait(SOON) == -9 and child.poll() is None
    finally:
        child.kill()
        child.wait()
        orphan.kill()
    made.rmdir()
    assert ours.is_dir() and not left.exists()


def test_a_long_temporary_directory_is_not_used(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(private.tempfile, "tempdir", str(long))
    made = private.private_directory("test")
    made.rmdir()
    assert str(made).startswith("/tmp/rankbook-test-") and list(long.iterdir()) == []
