"""A Python process that is forked early, and becomes the program that it is told to be later.

It has loaded what its parent had loaded: a kernel that begins as one has torch at once. Linux only.
"""

import atexit
import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rankbook.core.parent_death import die_with_parent

MESSAGE = 1 << 17  # bytes: a command and its environment
FILES = 16  # descriptors that a program may be given
PR_SET_NAME = 15
WITH_VALUE = ("-X", "-W")  # the interpreter's options that have one
OURS = {str(Path(__file__).resolve().parents[n]) for n in (0, 1)}  # no part of a program's path


class Spare:
    """A child of this process that waits for its program; it ends with this process.

    name: what the system calls it, at most 15 bytes. before: called in the child, with the
    environment set, before its program begins.
    """

    def __init__(self, name: str, before: Callable[[], None] = lambda: None):
        parent = os.getpid()
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent(parent)
                name_process(name)
                _become(orders, before)
            finally:  # a child never goes back into its parent's code
                os._exit(70)
        orders.close()

    def start(self, command: list[str], environment: dict[str, str], cwd: str, files: list[int]):
        """Have it run `command` (``python ...``), with `files` open under their own numbers.

        Its standard streams are this process's where `files` does not name them. Returns it.
        """
        order = {"command": command, "environment": environment, "cwd": cwd, "files": files}
        socket.send_fds(self._orders, [json.dumps(order).encode()], files)
        self._orders.close()
        return SpareProcess(self.pid)


class SpareProcess(subprocess.Popen):
    """`subprocess.Popen` of a process that runs already: of it, what waits and ends."""

    def __init__(self, pid: int):
        self.pid, self.returncode, self.args = pid, None, "a warm process"
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock, self._sigint_wait_secs = threading.Lock(), 0.25
        self._child_created, self._communication_started, self._input = True, False, None


def name_process(name: str) -> None:
    """Call this process `name` in the system's lists."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def _become(orders: socket.socket, before: Callable[[], None]) -> None:
    """Wait for the order, then be its program to the end; does not return."""
    message, received, _, _ = socket.recv_fds(orders, MESSAGE, FILES)
    if not message:
        os._exit(0)
    order = json.loads(message)
    _take_files(received, order["files"])
    os.setsid()
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["cwd"])
    _new_random_state()
    before()
    os._exit(_run(order["command"][1:]))


def _take_files(received: list[int], wanted: list[int]) -> None:
    """Give the `received` descriptors the `wanted` numbers, and close what is somebody else's.

    The objects that own what is closed here live on, in the frames below: nothing closes twice.
    """
    first_free = max([*wanted, *received, 2]) + 1
    for number, file in enumerate(received, first_free):
        os.dup2(file, number)
    for number, file in enumerate(wanted, first_free):
        os.dup2(number, file)
        os.set_inheritable(file, file <= 2)
    for file in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if file > 2 and file not in wanted:
            with suppress(OSError):  # the list's own
                os.close(file)


def _new_random_state() -> None:
    """As in a fresh process: Python's `random` sees to it by itself, torch has a constant."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run(arguments: list[str]) -> int:
    """Run what ``python ARGUMENTS`` would; return its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while arguments[0] not in ("-c", "-m") and arguments[0].startswith("-"):
        arguments = arguments[2 if arguments[0] in WITH_VALUE else 1 :]
    code = 0
    try:
        _run_main(arguments)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # as the interpreter does: it waits for the program's threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _run_main(arguments: list[str]) -> None:
    path = [place for place in sys.path if place not in OURS]
    if arguments[0] == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        sys.argv, sys.path[:] = ["-c", *arguments[2:]], ["", *path]
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    elif arguments[0] == "-m":
        sys.argv, sys.path[:] = ["-m", *arguments[2:]], [str(Path.cwd()), *path]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[:] = [str(Path(arguments[0]).resolve().parent), *path]
        runpy.run_path(arguments[0], run_name="__main__")
