"""Cells that time something run alone: no other page executes a cell meanwhile.

Such a cell has the tag "alone". Everybody else's cells run side by side. Who wants to be alone
holds the door shut until those inside have come out, so that nobody waits for ever. On a machine
that is to be busy (`BUSY` in the environment) nobody is alone: the cell has to notice.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

ALONE = "alone"  # the tag
BUSY = "RANKBOOK_BUSY"
LOOK = 0.02  # seconds between two tries


def times_something(path: Path) -> bool:
    """Whether the notebook at `path` has a cell that runs alone."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return any(ALONE in cell["metadata"].get("tags", ()) for cell in cells)


class Turns:
    """One page's part in the turns of all pages that share `folder`.

    waiting: called again and again while this page waits.
    """

    def __init__(self, folder: Path, waiting: Callable[[], None]):
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting = waiting
        self._door, self._room = ((folder / name).open("a") for name in ("door", "room"))

    def begin(self, cell) -> None:
        """Wait until `cell` may run."""
        self._lock(self._door, fcntl.LOCK_EX)
        alone = ALONE in cell.metadata.get("tags", ()) and not os.environ.get(BUSY)
        self._lock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)

    def end(self) -> None:
        """The cell has ended."""
        fcntl.flock(self._room, fcntl.LOCK_UN)

    def _lock(self, file, kind: int) -> None:
        while True:
            try:
                return fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self._waiting()
                time.sleep(LOOK)
