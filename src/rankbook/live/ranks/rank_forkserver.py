"""The fork server of live ranks: the standard library's, with torch loaded.

Importing torch once instead of once per rank is nearly all of a start's time. The server never
touches CUDA, so that its children may. It ends when the notebook's kernel ends, however that
happens: the kernel holds the only other end of a pipe that the server watches.
"""

import atexit
import multiprocessing
import os
import shutil
import sys
from contextlib import contextmanager, suppress
from multiprocessing import current_process, forkserver, resource_tracker
from types import ModuleType
from typing import Any

from rankbook.live.errors import UsageError
from rankbook.live.private import private_directory

# What every rank needs before its first cell. tqdm comes first: it decides at import how to draw,
# and once ipykernel is there it takes widgets, which live in the notebook's own kernel only.
# DDP loads torch._dynamo when it is first used: a second and a half, for every rank.
PRELOAD = [
    "tqdm.auto",
    "torch._dynamo",
    "rankbook.live.ranks.kernel",
    "rankbook.live.ranks.preload",
]


_directory: str | None = None  # the server's, once it has started


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


@contextmanager
def _own_directory():
    """Let multiprocessing make the server's socket in a directory of ours.

    Its own has a path that may be too long for a socket, and stays when the notebook is killed.
    """
    global _directory
    if _directory is None:
        _directory = str(private_directory("server"))
        atexit.register(_remove_directory, os.getpid())
    config: Any = current_process()
    before = dict(config._config)
    config._config["tempdir"] = _directory
    try:
        yield
    finally:
        config._config.pop("tempdir")
        config._config.update(before)


def _remove_directory(owner: int) -> None:
    if _directory is not None and os.getpid() == owner:
        shutil.rmtree(_directory, ignore_errors=True)


def context():
    """The multiprocessing context whose processes are forked from the warm server."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise UsageError("live ranks need Linux or macOS; on Windows, use WSL")
    ctx = multiprocessing.get_context("forkserver")
    ctx.set_forkserver_preload(PRELOAD)
    return ctx


def start(process) -> None:
    """Start a process of `context`, which does not run the program that the notebook runs.

    multiprocessing has each child run the parent's main file; under ``ipython notebook.ipynb`` and
    ``%run`` that is the reader's own, which would start ranks of its own.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        process.start()
    finally:
        sys.modules["__main__"] = main


def warm_up() -> None:
    """Start the server if it is not running; it loads torch while the reader reads on."""
    context()
    with _one_thread(), _own_directory():
        forkserver.ensure_running()


def stop() -> None:
    """End the server, and with it every rank. The notebook's kernel is about to leave.

    ipykernel waits for its child processes before it leaves, longer than Jupyter waits for it, and
    multiprocessing's tracker (which we give nothing to track) ends only when we close its pipe.
    """
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    with suppress(AttributeError):  # the standard library's own tests use these two
        server._stop()
        tracker._stop()
    _remove_directory(os.getpid())
