"""A board in a folder that all nodes see, on which each writes a note and reads the others'."""

import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

from rankbook.core.atomic import hand_over

PAUSE = 0.05  # seconds between two looks


class Board:
    """For the length of a ``with`` block: the notes of `count` nodes, in `folder`, until `end`.

    own: this node's name. The last node that leaves takes the folder away. Raises OSError where
    nothing can be written.
    """

    def __init__(self, folder: Path, own: str, count: int, end: float):
        self.folder, self.own, self.count, self.end = folder, own, count, end

    def __enter__(self) -> "Board":
        self.folder.mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FileNotFoundError):  # who leaves at the same time took it away
            hand_over(self.folder / f"{self.own}.left", "true")
            if len(self._written("left")) >= self.count or time.monotonic() >= self.end:
                shutil.rmtree(self.folder, ignore_errors=True)

    def share(self, subject: str, note: Any) -> dict[str, Any]:
        """Write `note`; what each node has written by `end`, by its name. note: as JSON has it."""
        hand_over(self.folder / f"{self.own}.{subject}", json.dumps(note))
        while len(found := self._notes(subject)) < self.count and time.monotonic() < self.end:
            time.sleep(PAUSE)
        return found

    def _notes(self, subject: str) -> dict[str, Any]:
        return {
            path.name.removesuffix(f".{subject}"): json.loads(path.read_text())
            for path in self._written(subject)
        }

    def _written(self, subject: str) -> list[Path]:
        """The folder is listed each time: a file server's clients look then."""
        return [
            path
            for path in self.folder.iterdir()
            if path.name.endswith(f".{subject}") and not path.name.startswith(".")
        ]
