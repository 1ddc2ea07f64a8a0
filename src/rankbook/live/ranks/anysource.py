"""A `recv` from any rank that can be got out of its wait.

gloo waits for a message from whoever comes, and no connection that breaks ends that. So a thread
waits, and the cell waits for the thread, in Python.
"""

import functools
import threading

import torch.distributed as dist

LOOK = 0.05  # seconds from one look at whether connections were cut to the next

_cut = threading.Event()


def end_waits() -> None:
    """Let every `recv` from any rank raise."""
    _cut.set()


def install() -> None:
    """Replace `dist.recv`, for this process; what waits from now on was not cut."""
    _cut.clear()
    original = dist.distributed_c10d.recv
    if hasattr(original, "__wrapped_by_rankbook__"):
        return

    @functools.wraps(original)
    def recv(tensor, src=None, group=None, tag=0, group_src=None):
        __tracebackhide__ = True  # IPython leaves this frame out
        arguments = (tensor, src, group, tag, group_src)
        anyone = src is None and group_src is None
        return _wait_for(original, arguments) if anyone else original(*arguments)

    recv.__dict__["__wrapped_by_rankbook__"] = True
    dist.recv = dist.distributed_c10d.recv = recv


def _wait_for(original, arguments: tuple):
    done, outcome = threading.Event(), {}

    def receive():
        try:
            outcome["source"] = original(*arguments)
        except Exception as error:
            outcome["error"] = error
        done.set()

    threading.Thread(target=receive, daemon=True).start()
    while not done.wait(LOOK):
        if _cut.is_set():
            raise RuntimeError("Connection closed by peer: no rank is left to receive from")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["source"]
