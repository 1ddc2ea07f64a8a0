"""An agent's process as the notebook sees it, however it was started."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from rankbook.live.torchrun import agent
from rankbook.live.torchrun.notes import LAUNCH, read_note


class Starter:
    """Starts processes from one thread that lives as long as the notebook's kernel.

    The system ends a child with the *thread* that started it (see `die_with_parent`), and a cell
    may run in a thread that ends.
    """

    def __init__(self):
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rankbook-starter")

    def start(self, command: list[str], **options) -> subprocess.Popen:
        """`subprocess.Popen`, in a session of its own: Ctrl-C for the kernel is not for it."""
        start: Callable = subprocess.Popen
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True} | options
        return self._thread.submit(start, command, **options).result()


class ColdAgent:
    """``python agent.py``: the agent and each worker load torch for themselves."""

    def __init__(self, directory: Path, starter: Starter):
        self._directory = directory
        request = read_note(directory / "request.json")
        with (
            (directory / "agent.out").open("ab") as out,
            (directory / "agent.err").open("ab") as err,
        ):
            command = [sys.executable, "-u", agent.__file__, directory, os.getpid()]
            self._process = starter.start(
                [str(word) for word in command],
                stdout=out,
                stderr=err,
                cwd=request["cwd"],
                env=request["environment"],
            )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code (negative: the signal's number), or None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._sweep()
        return code

    def send_signal(self, signum: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        self._process.send_signal(signum)

    def destroy(self) -> None:
        """End it and everything it started, now."""
        self.send_signal(signal.SIGKILL)  # the workers end with it
        self._process.wait()
        self._sweep()

    def _sweep(self) -> None:
        """End what workers started and left behind: it carries the launch's name."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(LAUNCH) == str(self._directory):
                    process.kill()


class ForkedAgent:
    """An agent that the fork server started, and the line to its launcher."""

    def __init__(self, launcher: socket.socket):
        self._launcher = launcher
        self.pid: int | None = None
        self.destroyed = False
        self._code: int | None = None
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """The exit code (negative: the signal's number), or None while it runs."""
        with self._reading:
            while self._code is None:
                try:
                    message = self._launcher.recv(4096, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return None
                except ConnectionResetError:
                    message = b""
                # Without a last word the launcher was killed, and everything with it.
                news = json.loads(message) if message else {"exit": -signal.SIGKILL}
                self.pid = news.get("agent", self.pid)
                self._code = news.get("exit")
                if self._code is not None:
                    self._launcher.close()
        return self._code

    def send_signal(self, signum: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        if self.poll() is None and self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def destroy(self) -> None:
        """Have it and everything it started ended, now."""
        self.destroyed = True
        # The launcher takes that for an order. `poll` sees the end: only one thread may read.
        with suppress(OSError):  # it has ended by itself
            self._launcher.shutdown(socket.SHUT_WR)
