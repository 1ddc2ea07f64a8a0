"""Where a rank stands: which collective it is in, with what, on which line of the cell."""

import linecache
import re
import sys
import threading
import time
import traceback
from dataclasses import replace

import executing
import torch.distributed as dist

from rankbook.live.ranks import check
from rankbook.live.ranks.call import Call
from rankbook.live.ranks.check import describe

# Arguments of torch.distributed's functions that tell a reader which call it is.
SHOWN = ("tensor", "tensor_list", "input", "input_tensor", "output", "output_tensor",
         "src", "dst", "op")  # fmt: skip

WAITS = re.compile(r"\.wait\([^()]*(\([^()]*\))?\)$")
# Native code that waits for other ranks: what its caller's line holds. The last three are DDP's.
NATIVE = re.compile(
    r"\.wait\(|\bwait_tensor\(|\b_rebuild_buckets\(|\b_broadcast_coalesced\("
    r"|\b_verify_params_across_processes\("
)


def running(shell) -> Call:
    """The call that the main thread of this process is in now."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    call = _describe([(f, line, f) for f, line in traceback.walk_stack(frame)], shell)
    call = replace(call, cpu=time.process_time())
    if call.op is None and dist.is_initialized() and dist.get_backend() == "nccl":
        return replace(call, op="wait")  # nccl's calls return at once: waiting is anywhere later
    return call


def failed(shell) -> Call:
    """The call that the last cell's exception came from."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return Call()
    steps = []
    step = error.__traceback__
    while step is not None:
        steps.append((step.tb_frame, step.tb_lineno, step))
        step = step.tb_next
    steps.reverse()
    return _describe(steps, shell)


def _describe(stack: list, shell) -> Call:
    """`stack`: (frame, line, frame or traceback entry), innermost first."""
    line = op = text = source = None
    for frame, lineno, step in stack:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if op is None and file.endswith("torch/distributed/distributed_c10d.py"):
            op, text = name, _call(frame)
        elif op is None and file == check.__file__ and name == "checked":
            text = frame.f_locals.get("text", "")
            op = text.partition("(")[0]
        elif op is None and name == "_engine_run_backward":
            op, text = "backward", "backward()"
        if frame.f_globals is shell.user_ns:
            source = _source(step) if source is None else source
            if name == "<module>":
                line = lineno
                break
    if op is None and (WAITS.search(source or "") or NATIVE.search(_line(stack))):
        op = "wait"  # native code: only the line that calls it, the reader's or torch's, shows it
    return Call(op, text or source or "", line)


def _source(step) -> str:
    """The source of the call in progress, if it is short enough to quote."""
    node = executing.Source.executing(step)
    text = node.text() if node.node is not None else ""
    return text if len(text) <= 60 and "\n" not in text else ""


def _line(stack: list) -> str:
    """The innermost line; not parsed, for it may be in one of torch's long files."""
    if not stack:
        return ""
    frame, lineno, _ = stack[0]
    return linecache.getline(frame.f_code.co_filename, lineno).strip()


def _call(frame) -> str:
    code = frame.f_code
    names = [n for n in code.co_varnames[: code.co_argcount] if n in SHOWN]
    return describe(code.co_name, {name: frame.f_locals.get(name) for name in names})
