"""One fault under one system: a kernel of its own, from its start to what it leaves behind."""

import contextlib
import queue
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.rival_faults import NEXT, Fault, judge, works
from benchmarks.rival_systems import PERSISTENT_FIRST, System, environment, write_kernel
from tests.live.kernel import COLOUR, Notebook

START = 150.0  # seconds that ranks may take to be there
AFTER = 15.0  # seconds that the cell after the fault may take
LEAVE = 15.0  # seconds in which what a killed kernel has started may end
STOP = 5.0  # seconds that an interrupt may take
ENDED, BUSY, DEAD = "ended", "no end", "kernel died"


@dataclass
class Case:
    """What happened. seconds: until control was back, from the cell's start or the interrupt."""

    system: str
    fault: str
    end: str  # ENDED, BUSY or DEAD
    seconds: float
    sees: str
    failed: bool
    next: bool
    left: int
    marks: list[tuple[float, int]]  # seconds, and how long the text was then
    text: str
    error: str
    after: str  # what the next cell printed and raised

    def as_dict(self) -> dict:
        """For a line of the log."""
        return asdict(self)


class Kernel(Notebook):
    """A notebook's kernel that may hang or die."""

    def __init__(self, system: System, python: str, folder: Path):
        kernels = write_kernel(system, python, folder / "kernels")
        super().__init__(environment(python, folder) | system.env, str(folder), kernels)

    def begin(self, code: str) -> None:
        """Start a cell."""
        self._marks: list[tuple[float, int]] = []
        super().begin(code)

    def _take(self, kind: str, content: dict) -> None:
        if "text" in content:
            content["text"] = COLOUR.sub("", content["text"])
        super()._take(kind, content)
        if not self._marks or len(self._text) > self._marks[-1][1]:
            self._marks.append((time.monotonic(), len(self._text)))

    def marks(self, began: float) -> list[tuple[float, int]]:
        """When how much of the text was there."""
        return [(round(at - began, 3), length) for at, length in self._marks]

    def wait(self, seconds: float) -> str:
        """Read until the cell has ended, or the kernel has, or the time is over."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                self.finish(min(0.5, left))
                return ENDED
            if not self._manager.is_alive():
                return DEAD
        return BUSY

    def said(self) -> tuple[str, str]:
        """What the running or last cell has printed and raised."""
        return self._text, self._error

    def failed(self) -> bool:
        """Whether the cell counts as failed: by its reply, as nbclient sees it.

        What only the reply tells is on no screen; it is kept for who reads the log.
        """
        with contextlib.suppress(queue.Empty):
            while True:
                reply = self._client.get_shell_msg(timeout=2)
                if reply["parent_header"].get("msg_id") == self._message:
                    content = reply["content"]
                    if content["status"] == "error" and not self._error:
                        self._error = f"reply: {content['ename']}: {content['evalue']}"
                    return content["status"] != "ok"
        return bool(self._error)

    def abandon(self) -> None:
        """Forget a cell that does not end."""
        self._idle = True


def run_case(system: System, fault: Fault, python: str, limit: float) -> Case:
    """Start, prove that a cell works, commit the fault, try the next cell, kill the kernel.

    Raises RuntimeError if the ranks do not come up.
    """
    with tempfile.TemporaryDirectory(prefix="rivals-", ignore_cleanup_errors=True) as folder:
        with Kernel(system, python, Path(folder)) as kernel:
            _start(kernel, system)
            kernel.begin(system.wrap(fault.code))
            began = time.monotonic()
            if fault.interrupt:
                with contextlib.suppress(TimeoutError):
                    kernel.until("in it", limit)
                time.sleep(1)
                began = time.monotonic()
                kernel.interrupt()
            end = kernel.wait(limit)
            seconds = time.monotonic() - began
            failed = end == DEAD or (end == ENDED and kernel.failed())
            (text, error), marks = kernel.said(), kernel.marks(began)
            again = end != DEAD and _next(kernel, system, end)
            kernel.kill()
            left = len(kernel.wait_gone(LEAVE))
        sees = judge(fault, text, error)
        case = (system.name, fault.name, end, round(seconds, 3), sees, failed, again, left)
        after = "" if end == DEAD else "\n".join(kernel.said())[-1000:]
        return Case(*case, marks, text, error, after)


def _start(kernel: Kernel, system: System) -> None:
    for cell in system.start:
        _must(kernel, cell)
    for _ in range(3):
        said = _must(kernel, system.wrap(NEXT))
        if works(said):
            break
    else:
        raise RuntimeError(f"{system.name} has no working group: {said[-500:]}")
    if first := PERSISTENT_FIRST.get(system.name):
        _must(kernel, system.wrap(first))


def _must(kernel: Kernel, cell: str) -> str:
    kernel.begin(cell)
    if kernel.wait(START) != ENDED or kernel.failed():
        raise RuntimeError(f"{cell[:200]}: {' '.join(kernel.said())[-500:]}")
    return kernel.said()[0]


def _next(kernel: Kernel, system: System, end: str) -> bool:
    """Whether the next cell gives the right sum; one that hangs is stopped before, as one does."""
    if end == BUSY:
        kernel.interrupt()
        if kernel.wait(STOP) != ENDED:
            kernel.abandon()
            return False
    kernel.begin(system.wrap(NEXT))
    end = kernel.wait(AFTER)
    kernel.abandon()
    return end == ENDED and works(kernel.said()[0])
