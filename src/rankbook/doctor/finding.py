"""What the doctor is asked, and what it finds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LEVELS = ("ok", "skipped", "warning", "problem")  # in the order in which a reader meets them


class Finding(NamedTuple):
    """One sentence, with the remedy where one is needed.

    level: one of LEVELS; a problem makes the command end with status 1. check: what was looked at,
    the same name on every machine. value: what was seen, as JSON can hold it.
    """

    level: str
    check: str
    says: str
    value: Any = None


def ok(check: str, says: str, value: Any = None) -> Finding:
    return Finding("ok", check, says, value)


def skipped(check: str, says: str, value: Any = None) -> Finding:
    return Finding("skipped", check, says, value)


def warning(check: str, says: str, value: Any = None) -> Finding:
    return Finding("warning", check, says, value)


def problem(check: str, says: str, value: Any = None) -> Finding:
    return Finding("problem", check, says, value)


@dataclass(frozen=True)
class Asked:
    """What the reader wants to know: see ``rankbook doctor --help``.

    seconds: for the whole examination; a room of it gets what is left for it.
    """

    checkpoints: Path = Path()
    port: int = 29500
    peers: Sequence[str] = ()
    ranks: int | None = None
    interface: str | None = None
    seconds: float = 60.0


def local_ranks(asked: Asked, gpus: int | None) -> int:
    """The ranks that a job would have on this node: as asked, or one a GPU, but two at least."""
    return asked.ranks or max(2, gpus or 0)


def nodes(environment: Mapping[str, str]) -> int:
    """How many nodes Slurm gave to this job; 1 outside of Slurm."""
    return number(environment, "SLURM_NNODES") or 1


def number(environment: Mapping[str, str], name: str) -> int | None:
    """The whole number that variable `name` begins with, as in ``4(x2)``; None without one."""
    found = re.match(r"\d+", environment.get(name, ""))
    return int(found[0]) if found else None


def size(count: float) -> str:
    """`count` bytes in the unit that is read at a glance: ``78.1 GB``."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB" if count < 1000 else f"{count:,.0f} TB"
