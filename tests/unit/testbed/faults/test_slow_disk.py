"""A slow disk: fsync waits as long as it is told, by name, in the processes that obey."""

import os

from rankbook.testbed.faults import slow_disk
from rankbook.testbed.faults.slow_disk import SlowDisk


def test_each_fsync_waits_while_the_disk_is_slow(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(slow_disk.time, "sleep", waited.append)
    monkeypatch.setattr(os, "fsync", os.fsync)  # and back, at the end of the test
    disk = SlowDisk(tmp_path)
    exec(disk.cell, {})
    with (tmp_path / "file").open("wb") as file:
        os.fsync(file.fileno())
        disk.set(0.25)
        os.fsync(file.fileno())
        disk.set(3)
        os.fsync(file.fileno())
        disk.set(0)
        os.fsync(file.fileno())
    disk.set(0)
    assert waited == [0.25, 3.0]
