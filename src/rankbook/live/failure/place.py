"""Where a process is, from its frames: in which call, and in what words.

Standard library only, until it is asked.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from rankbook.autopsy.flight import Entry
from rankbook.live.failure.frames import PACKAGES, STDLIB

C10D = "torch/distributed/distributed_c10d.py"
AROUND = (C10D, "torch/distributed/c10d_logger.py")
BACKWARD = "_engine_run_backward"  # torch's function around the C++ of a backward pass
# Arguments of torch.distributed's functions that tell a reader which call it is.
SHOWN = ("tensor", "tensor_list", "input", "input_tensor", "output", "output_tensor",
         "src", "dst", "op")  # fmt: skip
SHORT = 60  # characters of source that are quoted
FEW = 6  # frames of a stack that are told


class Step(NamedTuple):
    """One frame of a stack; `known` is what `executing` asks: a frame, or a traceback's entry."""

    frame: FrameType
    lasti: int
    line: int
    known: Any

    @property
    def file(self) -> str:
        """The file of its code."""
        return self.frame.f_code.co_filename

    @property
    def name(self) -> str:
        """The function."""
        return self.frame.f_code.co_name

    @classmethod
    def of(cls, frame: FrameType) -> "Step":
        """Where `frame` is now."""
        return cls(frame, frame.f_lasti, frame.f_lineno, frame)


def of_frame(frame: FrameType | None) -> list[Step]:
    """The frames of a thread, innermost first."""
    steps = []
    while frame is not None:
        steps.append(Step.of(frame))
        frame = frame.f_back
    return steps


def of_traceback(step: TracebackType | None) -> list[Step]:
    """The frames that an exception passed, innermost first."""
    steps = []
    while step is not None:
        steps.append(Step(step.tb_frame, step.tb_lasti, step.tb_lineno, step))
        step = step.tb_next
    return steps[::-1]


def collective(
    steps: Sequence[Step],
    around: tuple[str, ...] = (),
    named: Callable[[Step], str] = lambda step: "",
) -> tuple[str | None, str]:
    """The collective that the innermost frames are in: its name, and the call in words.

    Of one that is made of others, the outer one: what the reader called. around: files that wrap
    torch's functions. named: the call in words that such a frame stands for, "" if none.
    """
    op, text = None, ""
    for step in steps:
        if op and not step.file.endswith((*AROUND, *around)):
            break
        if step.file.endswith(C10D) and not step.name.startswith("_"):
            op, text = step.name, described(step.frame)
        elif op is None and (text := named(step)):
            op = text.partition("(")[0]
    return op, text


def may_wait(step: Step) -> bool:
    """Whether a thread may be held up here by a collective that no frame shows."""
    return "/torch/" in step.file or step.file.endswith("/threading.py")


def waiting_for(entry: Entry, op: str | None, text: str) -> str:
    """A collective that C++ issued, or that was issued earlier, and the call that waits for it."""
    if op == "backward":
        by_cpp = not entry.frames or entry.frames[0].name == BACKWARD
        return entry.text + (" of DDP's backward" if by_cpp else " of the backward pass")
    if "wait" in text:
        return f"{text} for {entry.text}"
    return f"{entry.text} of {text}" if text else entry.text


def described(frame: FrameType) -> str:
    """The call of torch that `frame` is: ``broadcast(float32 [4], src=0)``."""
    code, found = frame.f_code, frame.f_locals
    names = [name for name in code.co_varnames[: code.co_argcount] if name in SHOWN]
    parts = [words for name in names if (words := _argument(name, found.get(name)))]
    return f"{code.co_name}({', '.join(parts)})"


def _argument(name: str, value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, list) and value and hasattr(value[0], "dtype"):
        return f"{len(value)} x {_argument(name, value[0])}"
    if name in ("src", "dst") and isinstance(value, int):
        return f"{name}={value}"
    if name == "op" and value is not None:
        operation = str(getattr(value, "name", value)).rpartition(".")[2]
        return "" if operation == "SUM" else f"op={operation}"
    return ""


def source(step: Step) -> str:
    """The source of the call in progress, if it is short enough to quote."""
    try:
        import executing

        node = executing.Source.executing(step.known)
        text = node.text() if node.node is not None else ""
    except Exception:  # it reads code objects, which the program may have made by itself
        return ""
    return text if len(text) <= SHORT and "\n" not in text else ""


def way(steps: Sequence[Step], of_cell: Callable[[Step], bool]) -> tuple[str, ...]:
    """The innermost frames from the cell on, outermost first: ``cell line 7, in load``."""
    lines: list[str] = []
    for step in reversed(steps):
        inside = "" if step.name == "<module>" else f", in {step.name}"
        if of_cell(step):
            lines.append(f"cell line {step.line}{inside}")
        elif lines:
            lines.append(f"{_short(step.file)}:{step.line}{inside}")
    return tuple(lines[-FEW:])


def _short(file: str) -> str:
    for root in (PACKAGES, STDLIB):
        if found := root.match(file):
            return file[found.end() :]
    under = (file[len(p) + 1 :] for p in sys.path if p and file.startswith(f"{p}/"))
    return next(under, Path(file).name)
