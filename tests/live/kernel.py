"""A real notebook kernel for the tests: run cells, interrupt, kill, and see every process of it."""

import os
import queue
import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager

from tests.waiting import SOON

MARK = "RANKBOOK_TEST_NOTEBOOK"  # inherited by every process of a notebook, orphans included
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Result:
    """What one cell gave: printed text, the error ("" if none), the wall time for benchmarks."""

    text: str
    error: str
    seconds: float


class Notebook:
    """One ipykernel, driven by jupyter_client. Use it in a ``with``; leaving kills everything.

    kernels: where the kernel "python3" of another environment is; this one's by default.
    """

    def __init__(
        self,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        kernels: Path | None = None,
    ):
        self._mark = uuid.uuid4().hex
        self._manager = KernelManager(kernel_name="python3")
        if kernels is not None:
            self._manager.kernel_spec_manager = KernelSpecManager(
                kernel_dirs=[str(kernels)], ensure_native_kernel=False
            )
        self._manager.start_kernel(env={**os.environ, **(env or {}), MARK: self._mark}, cwd=cwd)
        self.pid = self._manager.provisioner.pid
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=SOON)
        self._message = ""
        self._text, self._error, self._began, self._idle = "", "", 0.0, True

    def __enter__(self) -> "Notebook":
        return self

    def __exit__(self, *exception) -> None:
        self.kill()
        self._client.stop_channels()
        self._manager.cleanup_resources()
        for process in self.processes():  # a failed test must not leave anything to the next one
            with suppress(psutil.NoSuchProcess):  # it ended by itself
                process.kill()

    def run(self, code: str, timeout: float = SOON) -> Result:
        """Run a cell to its end. Raises TimeoutError with the output so far."""
        self.begin(code)
        return self.finish(timeout)

    def begin(self, code: str) -> None:
        """Start a cell and return at once; `until` and `finish` follow it."""
        assert self._idle, "the cell before has not ended"
        self._text, self._error, self._idle = "", "", False
        self._began = time.monotonic()
        self._message = self._client.execute(code, allow_stdin=False)

    def until(self, pattern: str, timeout: float = SOON) -> str:
        """Read output until `pattern` (a regular expression) is in it; return the text so far."""
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self._text):
            if self._idle or not self._read(deadline):
                raise TimeoutError(f"no {pattern!r} in: {self._text}\n{self._error}")
        return self._text

    def until_idle_or(self, pattern: str, timeout: float = SOON) -> bool:
        """Read output until the cell has ended, or `pattern` is in it: then True."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self._text)) and not self._idle:
            if not self._read(deadline):
                raise TimeoutError(f"neither an end nor {pattern!r} in: {self._text}")
        return bool(found) and not self._idle

    def finish(self, timeout: float = SOON) -> Result:
        """Read output until the cell has ended. Raises TimeoutError with the output so far."""
        deadline = time.monotonic() + timeout
        while not self._idle:
            if not self._read(deadline):
                raise TimeoutError(f"still running after {timeout} s: {self._text}")
        return Result(self._text, self._error, time.monotonic() - self._began)

    def run_until(self, code: str, pattern: str, timeout: float = SOON) -> str:
        """Run a cell again and again until `pattern` is in its output; return that output."""
        deadline = time.monotonic() + timeout
        while not re.search(pattern, text := self.run(code).text):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {pattern!r} in: {text}")
            time.sleep(0.05)
        return text

    def complete(self, code: str, timeout: float = SOON) -> list[str]:
        """What tab completion offers at the end of `code`."""
        reply = self._client.complete(code, reply=True, timeout=timeout)
        return reply["content"]["matches"]

    def interrupt(self) -> None:
        """What the stop button does: SIGINT to the kernel's process group."""
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        """SIGKILL the kernel, and nothing else."""
        kernel = self._manager.provisioner.process
        if kernel is not None and kernel.poll() is None:
            kernel.kill()
            kernel.wait()

    def processes(self) -> list[psutil.Process]:
        """Every living process that this notebook started, directly or not, orphans included."""
        return [p for p in psutil.process_iter() if p.pid != self.pid and self._is_ours(p)]

    def wait_gone(self, timeout: float = SOON) -> list[psutil.Process]:
        """Wait until no process of this notebook is left; return those that are."""
        deadline = time.monotonic() + timeout
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get(MARK) == self._mark
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _read(self, deadline: float) -> bool:
        """Take one message; False when there was none before the deadline."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        try:
            message = self._client.get_iopub_msg(timeout=left)
        except queue.Empty:
            return False
        if message["parent_header"].get("msg_id") == self._message:
            self._take(message["header"]["msg_type"], message["content"])
        return True

    def _take(self, kind: str, content: dict) -> None:
        if kind == "stream":
            self._text += content["text"]
        elif kind in ("execute_result", "display_data", "update_display_data"):
            self._text += content["data"].get("text/plain", "") + "\n"
        elif kind == "error":
            self._error = COLOUR.sub("", "\n".join(content["traceback"]))
        elif kind == "status" and content["execution_state"] == "idle":
            self._idle = True
