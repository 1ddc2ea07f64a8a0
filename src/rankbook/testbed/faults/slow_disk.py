"""A disk that takes its time: each fsync of a job's workers waits as long as a file says.

A device that is slow for one job only needs a block device of its own, which few may make. What
such a disk does to a program is that fsync returns late; so that is what happens here, in the
workers, by a line in front of their program.
"""

import os
import time
from pathlib import Path

FILE = "fsync-takes"  # in the job's folder: seconds, as text


def obey(folder: str) -> None:
    """From now on, in this process: each fsync takes as long as the file in `folder` says."""
    real, file = os.fsync, Path(folder) / FILE

    def slow(fd) -> None:
        real(fd)
        try:
            time.sleep(float(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return

    os.fsync = slow


class SlowDisk:
    """What makes the fsyncs of the job in `folder` slow, and quick again."""

    def __init__(self, folder: Path):
        self.file = Path(folder) / FILE

    @property
    def cell(self) -> str:
        """What the job's workers run first."""
        return (
            f"from rankbook.testbed.faults.slow_disk import obey\nobey({str(self.file.parent)!r})\n"
        )

    def set(self, seconds: float) -> None:
        """Each fsync takes that much longer from now on; 0: no longer."""
        if not seconds:
            self.file.unlink(missing_ok=True)
            return
        growing = self.file.with_suffix(".new")
        growing.write_text(str(seconds), encoding="utf-8")
        growing.replace(self.file)
