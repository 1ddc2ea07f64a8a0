"""What a front end started, directly or not: found by a mark that processes inherit."""

import os
import time
import uuid

import psutil

from tests.waiting import SOON

MARK = "RANKBOOK_TEST_FRONTEND"


class Traces:
    """Processes with a mark of their own in the environment; give `variables` to the first."""

    def __init__(self):
        self._mark = uuid.uuid4().hex
        self.variables = {**os.environ, MARK: self._mark, "OMP_NUM_THREADS": "1"}

    def processes(self) -> list[psutil.Process]:
        """Those that live, orphans included."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def wait_gone(self, but: int = 0) -> list[str]:
        """Wait until none is left but process `but`; return the command lines of those that are."""
        deadline = time.monotonic() + SOON
        while (left := self._left(but)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [" ".join(process.cmdline()) for process in left]

    def kill(self) -> None:
        """A failed test must not leave anything to the next one."""
        for process in self.processes():
            process.kill()

    def _left(self, but: int) -> list[psutil.Process]:
        return [process for process in self.processes() if process.pid != but]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get(MARK) == self._mark
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False
