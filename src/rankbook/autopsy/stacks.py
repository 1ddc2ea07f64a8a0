"""Python stacks of running threads, and what a rank does as its stack tells it."""

import linecache
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

_LIBRARIES = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    "/site-packages/",
    "/dist-packages/",
    "<frozen",
)
P2P = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}  # where the peer's rank is
MAKES_GROUPS = ("init_process_group", "new_group", "new_subgroups", "init_device_mesh")
DEPTH = 60  # frames of a stack, the innermost


@dataclass(frozen=True)
class Line:
    """A line of a stack: where, in which function, the source's text; `own`: in no library."""

    file: str
    line: int
    name: str
    text: str
    own: bool

    @property
    def place(self) -> str:
        """``train.py:12 in load``."""
        function = f" in {self.name}" if self.name != "<module>" else ""
        return f"{self.file.rpartition('/')[2]}:{self.line}{function}"

    def __str__(self) -> str:
        return self.place + (f": {self.text}" if self.text else "")


def is_own(file: str) -> bool:
    """Whether a file is the reader's own: of no library, neither Python's nor an installed one."""
    return not any(part in file for part in _LIBRARIES)


def stack(frame: FrameType | None) -> list[Line]:
    """The lines of a stack, innermost first."""
    lines: list[Line] = []
    while frame is not None and len(lines) < DEPTH:
        file, number = frame.f_code.co_filename, frame.f_lineno or 0
        text = linecache.getline(file, number, frame.f_globals).strip()
        lines.append(Line(file, number, frame.f_code.co_name, text, is_own(file)))
        frame = frame.f_back
    return lines


def at(file: str, number: int, name: str) -> Line:
    """A line that only its place is known of, with its text if the file is here."""
    return Line(file, number, name, linecache.getline(file, number).strip(), is_own(file))


def peer(frame: FrameType | None) -> int | None:
    """With which rank a thread that is in torch's `send` or `recv` deals; None if it does not."""
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name in P2P and file.endswith("torch/distributed/distributed_c10d.py"):
            return _peer(P2P[name], frame.f_locals)
        frame = frame.f_back
    return None


def _peer(argument: str, given: dict[str, Any]) -> int | None:
    if isinstance(rank := given.get(argument), int):
        return rank
    within = given.get(f"group_{argument}")
    dist = sys.modules.get("torch.distributed")
    if within is None or dist is None:
        return None
    return dist.get_global_rank(given.get("group") or dist.group.WORLD, within)


def last_line(lines: Sequence[Line]) -> Line | None:
    """The innermost line of the reader's own code, or of any if there is none."""
    return next((line for line in lines if line.own), lines[0] if lines else None)


def call(lines: Sequence[Line]) -> str:
    """The call of torch.distributed that a stack is in, as its reader wrote it; or ""."""
    named = [line.name for line in _inner(lines) if "/torch/distributed/" in line.file]
    return next((name for name in reversed(named) if name != "wrapper"), "")


def in_backward(lines: Iterable[Line]) -> bool:
    """Whether a stack is in torch's backward."""
    return any(line.name == "backward" and "torch/" in line.file for line in lines)


def in_loader(lines: Iterable[Line]) -> bool:
    """Whether a stack is in a DataLoader."""
    return any(line.file.endswith("torch/utils/data/dataloader.py") for line in lines)


def is_writing(lines: Sequence[Line]) -> bool:
    """Whether the last line prints: its text says so, the system call has no frame."""
    line = last_line(lines)
    return line is not None and any(word in line.text for word in ("print(", ".write(", ".flush("))


def _inner(lines: Sequence[Line]) -> list[Line]:
    """What is further in than the innermost line of the reader's own."""
    own = next((i for i, line in enumerate(lines) if line.own), len(lines))
    return list(lines[:own])
