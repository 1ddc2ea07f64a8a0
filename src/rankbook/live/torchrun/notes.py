"""Small JSON files that the processes of a launch leave for the notebook. Standard library only."""

import json
import os
import time
from pathlib import Path


def write_note(path: Path, content: dict) -> None:
    """Write `content` to `path`: a reader sees the whole file or none."""
    part = path.with_suffix(f".part{os.getpid()}")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(content), encoding="utf-8")
    part.rename(path)


def read_note(path: Path) -> dict | None:
    """What `write_note` wrote to `path`; None if nothing is there yet."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def next_name() -> str:
    """A file name that sorts by time and that no other process takes."""
    return f"{time.time_ns():020d}-{os.getpid()}.json"


def read_notes(directory: Path, known: set[str] = frozenset()) -> dict[str, dict]:
    """Every note in `directory` whose name is not in `known`, in the order of writing."""
    names = sorted(path.name for path in Path(directory).glob("*.json") if path.name not in known)
    return {name: read_note(Path(directory) / name) for name in names}
