"""What the doctor is to look at, and what it finds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LEVELS = ("ok", "skipped", "warning", "problem")  # in the order in which a reader meets them


class Finding(NamedTuple):
    """One sentence, with the remedy where one is needed.

    level: one of LEVELS; a problem makes the command end with status 1. name: of what was looked
    at, the same on every machine. value: what was seen, as JSON can hold it.
    """

    level: str
    name: str
    says: str
    value: Any = None


def ok(name: str, says: str, value: Any = None) -> Finding:
    """As it should be."""
    return Finding("ok", name, says, value)


def skipped(name: str, says: str, value: Any = None) -> Finding:
    """Not looked at, or nothing to look at; no remedy is needed."""
    return Finding("skipped", name, says, value)


def warning(name: str, says: str, value: Any = None) -> Finding:
    """A job can run, but worse or otherwise than one expects."""
    return Finding("warning", name, says, value)


def problem(name: str, says: str, value: Any = None) -> Finding:
    """A job would fail: the remedy has to come first."""
    return Finding("problem", name, says, value)


@dataclass(frozen=True)
class Options:
    """What to look at: see ``rankbook doctor --help``.

    checkpoints: the folder where they will go. port: of the rendezvous. peers: other nodes. ranks:
    local ones; None for one a GPU. mesh: of all ranks, as train_lm takes it. interface: that the
    job shall use. parameters, step_seconds: of the model that is to be trained, for what its
    gradients would cost between nodes. seconds: for the whole examination; a single check gets
    its share, of what is left.
    """

    checkpoints: Path = Path()
    port: int = 29500
    peers: Sequence[str] = ()
    ranks: int | None = None
    mesh: str = ""
    interface: str | None = None
    parameters: float = 124e6
    step_seconds: float = 1.0
    seconds: float = 60.0


def local_ranks(options: Options, gpus: int | None) -> int:
    """The ranks that a job would have on this node: as asked, or one a GPU, but two at least."""
    return options.ranks or max(2, gpus or 0)


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
