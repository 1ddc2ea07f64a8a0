"""What ``%ranks status`` tells of a rank, as the rank itself knows it."""

import time

import psutil
import torch

from rankbook.autopsy.flight import recent_collectives
from rankbook.live.ranks import where


def standing(shell, cell: int | None, since: float | None) -> dict:
    """State, memory and last call of this rank, for `rankbook.live.ranks.status`.

    cell: its number in the notebook. since: when it began, seconds since the epoch; None if idle.
    """
    return {
        "cell": cell,
        "seconds": None if since is None else time.time() - since,
        "call": None if since is None else where.running(shell).as_dict(),
        "memory": psutil.Process().memory_info().rss,
        "gpu": torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0,
        "last": _last_call(shell),
    }


def _last_call(shell) -> dict | None:
    """The last collective, also one that C++ issued; of send and recv gloo records nothing."""
    cells = getattr(shell.compile, "_filename_map", {})
    for entry in recent_collectives(1):
        frame = next((frame for frame in entry.frames if frame.file in cells), None)
        place = f" (cell {cells[frame.file]}, line {frame.line})" if frame else ""
        return {"text": entry.text + place, "seconds": time.time() - entry.time, "done": entry.done}
    return None
