"""A process that has torch loaded and forks ranks: the standard library's fork server.

Importing torch once instead of once per rank is nearly all of a start's time. The server never
touches CUDA, so that its children may. It ends when the notebook's kernel ends, however that
happens: the kernel holds the only other end of a pipe that the server watches.
"""

import multiprocessing
import os
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker

from rankbook.live.errors import UsageError

# What every rank needs before its first cell. tqdm comes first: it decides at import how to draw,
# and once ipykernel is there it takes widgets, which live in the notebook's own kernel only.
# DDP loads torch._dynamo when it is first used: a second and a half, for every rank.
PRELOAD = [
    "tqdm.auto",
    "torch._dynamo",
    "rankbook.live.ranks.kernel",
    "rankbook.live.ranks.preload",
]


@contextmanager
def _one_thread():
    """Torch must not start threads in the server: a forked child has none of them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def context():
    """The multiprocessing context whose processes are forked from the warm server."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise UsageError("live ranks need Linux or macOS; on Windows, use WSL")
    ctx = multiprocessing.get_context("forkserver")
    ctx.set_forkserver_preload(PRELOAD)
    return ctx


def warm_up() -> None:
    """Start the server if it is not running; it loads torch while the reader reads on."""
    context()
    with _one_thread():
        forkserver.ensure_running()


def stop() -> None:
    """End the server, and with it every rank. The notebook's kernel is about to leave.

    ipykernel waits for its child processes before it leaves, longer than Jupyter waits for it, and
    multiprocessing's tracker (which we give nothing to track) ends only when we close its pipe.
    """
    with suppress(AttributeError):  # the standard library's own tests use these two
        forkserver._forkserver._stop()
        resource_tracker._resource_tracker._stop()
