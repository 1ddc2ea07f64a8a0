"""Where a rank of a launch is: in which call, on which line of the cell. Standard library only."""

from collections.abc import Sequence

from rankbook.autopsy.flight import Entry
from rankbook.live.failure.call import Call
from rankbook.live.failure.native import waits_in
from rankbook.live.failure.place import (
    BACKWARD,
    Step,
    collective,
    may_wait,
    source,
    waiting_for,
    way,
)


def call(steps: Sequence[Step], cell: str, pending: Sequence[Entry] = ()) -> Call:
    """What the frames `steps`, innermost first, are executing for the file `cell`.

    pending: this process's collectives that are not done, oldest first: C++ issues some of them,
    and no frame shows which.
    """
    op, text = _of_torch(steps)
    mine = next((step for step in steps if step.file == cell), None)
    quoted = source(mine) if mine else ""
    if op is None and steps and _waits(steps[0], pending):
        op, text = "wait", quoted
    number = pending[0].number if op and pending else 0
    if pending and op in ("wait", "backward"):
        text = waiting_for(pending[0], op, text)
    line = mine.line if mine else None
    stack = way(steps, lambda step: step.file == cell)
    return Call(op, text or quoted, line, number=number, stack=stack)


def in_backward(entry: Entry) -> bool:
    """Whether a collective belongs to a backward pass."""
    return any(frame.name == BACKWARD for frame in entry.frames)


def _of_torch(steps: Sequence[Step]) -> tuple[str | None, str]:
    """The innermost collective, or the backward pass: its name, and the call in words."""
    op, text = collective(steps)
    if op is None and any(step.name == BACKWARD for step in steps):
        return "backward", "backward()"
    return op, text


def _waits(innermost: Step, pending: Sequence[Entry]) -> bool:
    """Whether native code, or another thread, holds these frames up in a collective."""
    return bool(waits_in(*innermost[:3])) or (bool(pending) and may_wait(innermost))
