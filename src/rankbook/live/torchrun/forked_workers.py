"""How a forked agent starts its workers: it asks the launcher, instead of forking itself."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from rankbook.live.torchrun.agent import WORKER


class ForkedWorkers:
    """The agent's end of its line to the launcher."""

    def __init__(self, launcher: socket.socket):
        self._launcher = launcher
        self._codes: dict[int, int] = {}

    def start(self, arguments: list[str], environment: dict, stdout, stderr) -> "ForkedWorker":
        """Start a worker; `stdout` and `stderr` are files, or None for the agent's own."""
        order = json.dumps({"arguments": arguments, "environment": environment}).encode()
        files = [stdout.fileno() if stdout else 1, stderr.fileno() if stderr else 2]
        self._launcher.settimeout(None)
        socket.send_fds(self._launcher, [order], files)
        while "pid" not in (answer := self._receive()):
            pass
        self._codes.pop(answer["pid"], None)  # the system may give a number again
        return ForkedWorker(answer["pid"], self)

    def code(self, pid: int, timeout: float) -> int | None:
        """The exit code of worker `pid`; None if it still runs after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while pid not in self._codes:
            self._launcher.settimeout(max(0.0, deadline - time.monotonic()))
            try:
                self._receive()
            except (BlockingIOError, TimeoutError):
                return None
        return self._codes[pid]

    def _receive(self) -> dict:
        message = json.loads(self._launcher.recv(4096))
        if "ended" in message:
            self._codes[message["ended"]] = message["code"]
        return message


class ForkedWorker:
    """What torchrun uses of `subprocess.Popen`."""

    def __init__(self, pid: int, workers: ForkedWorkers):
        self.pid, self._workers = pid, workers
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code (negative: the signal's number), or None while it runs."""
        if self.returncode is None:
            self.returncode = self._workers.code(self.pid, 0.0)
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Wait for the end; raises subprocess.TimeoutExpired after `timeout` seconds."""
        self.returncode = self._workers.code(self.pid, min(timeout, 1e6))
        if self.returncode is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless the worker has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)


def install(workers: ForkedWorkers) -> None:
    """Make torchrun's agent, in this process, start `worker.py` through `workers`."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import handlers

    class ForkingHandler(handlers.SubprocessHandler):
        def _popen(self, args: tuple, env: dict) -> Any:  # of `Popen` it uses what a worker has
            # Anything else (numactl in front, another interpreter) starts as torchrun starts it.
            if args[:3] != (sys.executable, "-u", WORKER):
                return super()._popen(args, env)
            with suppress(OSError):  # an environment of more than 200 KB does not fit a message
                return workers.start(list(args[3:]), env, self._stdout, self._stderr)
            return super()._popen(args, env)

        def close(self, death_sig=None) -> None:
            # The launcher may have forgotten the worker between torchrun's look and its signal.
            with suppress(ProcessLookupError):
                super().close(death_sig)

    handlers.SubprocessHandler = ForkingHandler
