"""Small JSON files that the processes of a launch leave for the notebook. Standard library only."""

import json
import os
import time
from collections.abc import Container
from pathlib import Path

from rankbook.core.atomic import hand_over

LAUNCH = "RANKBOOK_LAUNCH"  # names the launch's private directory to its processes


def write_note(path: Path, content: dict) -> None:
    """Write `content` to `path`: a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hand_over(path, json.dumps(content))


def read_note(path: Path) -> dict:
    """What `write_note` wrote to `path`; raises FileNotFoundError."""
    return json.loads(path.read_text(encoding="utf-8"))


def find_note(path: Path) -> dict | None:
    """What `write_note` wrote to `path`; None if nothing is there yet."""
    try:
        return read_note(path)
    except FileNotFoundError:
        return None


def next_name() -> str:
    """A file name that sorts by time and that no other process takes."""
    return f"{time.time_ns():020d}-{os.getpid()}.json"


def read_notes(directory: Path, known: Container[str] = ()) -> dict[str, dict]:
    """Every note in `directory` whose name is not in `known`, in the order of writing."""
    names = sorted(path.name for path in Path(directory).glob("*.json") if path.name not in known)
    return {name: read_note(Path(directory) / name) for name in names}
