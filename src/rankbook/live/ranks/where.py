"""Where a rank stands: which collective it is in, with what, on which line of the cell."""

import sys
import threading
import time
from dataclasses import replace

import torch.distributed as dist

from rankbook.autopsy.flight import recent_collectives
from rankbook.live.failure import native
from rankbook.live.failure.call import Call
from rankbook.live.failure.place import (
    Step,
    collective,
    described,
    may_wait,
    of_frame,
    of_traceback,
    source,
    waiting_for,
    way,
)
from rankbook.live.ranks import anysource, check

AROUND = (check.__file__, anysource.__file__)  # what wraps torch's functions here


def running(shell) -> Call:
    """The call that this process is in now: its main thread, or a thread that waits for ranks."""
    frames, main = sys._current_frames(), threading.main_thread().ident or 0
    stack = of_frame(frames.pop(main, None))
    call = _describe(stack, shell)
    if call.line is None and shell.task is not None:  # the cell waits in an `await`
        stack = [Step.of(f) for f in _awaited(shell.task)]
        call = _describe(stack, shell)
    if call.op is None:
        call = _in_a_thread(call, frames, shell)
    call = _with_recorded(call, stack)
    # What the cell has used, without what it takes this thread to tell.
    return replace(call, cpu=time.process_time() - time.thread_time())


def glance(shell) -> Call:
    """As `running`, for the main thread alone and without asking torch: cheap enough for often."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return _describe(of_frame(frame), shell)


def _in_a_thread(main: Call, frames: dict, shell) -> Call:
    for frame in frames.values():
        stack = of_frame(frame)
        call = _describe(stack, shell)
        if call.op and not any(step.file == anysource.__file__ for step in stack):
            return replace(call, text=f"{call.text} in a thread", line=call.line or main.line)
    return main


def _with_recorded(call: Call, stack: list[Step]) -> Call:
    """`call`, with what torch's flight recorder knows of collectives that C++ issued."""
    if not dist.is_initialized():
        return call
    if call.op is None and dist.get_backend() != "nccl" and not (stack and may_wait(stack[0])):
        return call  # the recorder takes 0.03 s to tell
    # only what the backward pass waits for is told by where it was issued
    pending = [
        entry for entry in recent_collectives(stacks=call.op == "backward") if not entry.done
    ]
    if call.op is None and dist.get_backend() == "nccl":
        call = replace(call, op="wait")  # nccl's calls return at once: waiting is anywhere later
    elif call.op is None and pending:
        call = replace(call, op="wait")
    if call.op and pending:
        text = call.text
        if call.op in ("backward", "wait"):
            text = waiting_for(pending[0], call.op, call.text)
        call = replace(call, text=text, number=pending[0].number)
    return call


def failed(error: BaseException, shell) -> dict:
    """What the notebook is to know of `error`, which ended a cell: its origin, and the call."""
    stack = of_traceback(error.__traceback__)
    call, found = _describe(stack, shell), native.evidence(error)
    if isinstance(error, check.CollectiveMismatch):
        found["inside"] = call.op or "collective"
    elif stack and stack[0].file == anysource.__file__:
        found["inside"] = "recv"
    return {**found, "call": call.as_dict()}


def _describe(stack: list[Step], shell) -> Call:
    """What the frames of `stack`, innermost first, are executing."""
    line = quoted = None
    op, text = collective(stack, AROUND, _wrapped)
    for step in stack:
        if step.frame.f_globals is shell.user_ns:
            quoted = source(step) if quoted is None else quoted
            if step.name == "<module>":
                line = step.line
                break
    if op is None and stack and (name := native.waits_in(*stack[0][:3])):
        op = "backward" if name == "backward" else "wait"
        text = "backward()" if name == "backward" else None
    elif quoted and op and op in quoted and text == f"{op}()" != "barrier()":
        text = quoted  # its arguments are no tensors: new_group([0, 1])
    told = way(stack, lambda step: step.frame.f_globals is shell.user_ns)
    return Call(op, text or quoted or "", line, stack=told)


def _wrapped(step: Step) -> str:
    """The call that a frame of ours stands for, before it is torch's."""
    if step.file == anysource.__file__ and step.name == "recv":
        return described(step.frame)
    checked = step.file == check.__file__ and step.name == "checked"
    return step.frame.f_locals.get("text", "") if checked else ""


def _awaited(task) -> list:
    """The frames of a task that waits, innermost first."""
    frames, waits = [], task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        frames.insert(0, frame)
        waits = waits.cr_await
    return frames
