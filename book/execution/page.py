"""One chapter, executed from its first cell to its last, or to the one that fails."""

import os
import re
import resource
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from execution.kernel import WarmKernelManager, kernel_spare
from execution.leaving import end_all_below
from execution.outcome import Failure, Outcome
from execution.spare import Spare
from execution.turns import Turns
from execution.watch import Watch
from rankbook.live.failure.report import KILLED
from rankbook.live.private import private_directory

FOREVER = 10**6  # seconds: whether it gets on is for the watch to tell
OUTPUT_COMES = 300  # seconds until a busy machine has brought the last line of a cell
GRACE = 20.0  # seconds from the interrupt of a page that stands still to its end
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
ARROW = re.compile(r"^-+> \d+ (.*)", re.MULTILINE)  # before the line, in IPython's report
SIGNALLED = re.compile(rf"\b{KILLED}SIG[A-Z]+")


def execute_page(
    chapter: Path, executed: Path, stall: float, turns: Path, with_memory: bool
) -> Outcome:
    """Execute the notebook `chapter`, and write it with its outputs to `executed`.

    stall: seconds after which a page that does not get on is ended. turns: a folder that all pages
    share which are executed here. with_memory: whether to look at its memory. Call it in a process
    of its own, before that has any thread: what is left below it is ended.
    """
    outcome = Outcome(str(executed))
    notebook = nbformat.read(chapter, as_version=nbformat.NO_CONVERT)
    spare = kernel_spare()
    sockets = private_directory("kernel")
    try:
        run = _Run(notebook, chapter, _manager(spare, sockets), stall, turns)
        run.watch.with_memory = with_memory
        before, began = _children(), time.monotonic()
        outcome.failure = run.execute()
        outcome.seconds = time.monotonic() - began
        end_all_below()
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
    run.watch.stop()
    outcome.cpu = _children() - before
    outcome.peak_bytes = run.watch.peak_bytes
    for (process, cell), took in run.watch.cpu.items():
        for counted, key in ((outcome.by_process, process), (outcome.by_cell, cell)):
            counted[key] = counted.get(key, 0.0) + took
    nbformat.write(notebook, executed)
    return outcome


def _manager(spare: Spare, sockets: Path) -> type[WarmKernelManager]:
    """What starts the page's kernel from the spare, and speaks with it through `sockets`."""
    parts = {"spare": spare, "connection_file": f"{sockets}/kernel.json", "ip": f"{sockets}/kernel"}
    return type("KernelManager", (WarmKernelManager,), parts)


class _Run:
    """One execution, and who watches it."""

    def __init__(self, notebook, chapter: Path, manager, stall: float, turns: Path):
        self.cell, self.stood_still, self.stall = "", False, stall
        self.watch = Watch(self._end_what_stands_still, stall)
        self._turns = Turns(turns, waiting=self.watch.progress)
        self._kernel = manager.spare.pid
        self._client = NotebookClient(
            notebook,
            timeout=None,
            startup_timeout=FOREVER,
            iopub_timeout=OUTPUT_COMES,
            record_timing=True,
            kernel_manager_class=manager,
            resources={"metadata": {"path": str(chapter.parent)}},
            on_cell_execute=self._begin,
            on_cell_executed=self._end,
        )
        output = self._client.process_message

        def process_message(*arguments, **named):
            self.watch.progress()
            return output(*arguments, **named)

        self._client.process_message = process_message

    def execute(self) -> Failure | None:
        self.watch.start()
        try:
            self._client.execute()
        except CellExecutionError as error:
            return self._failed(error)
        except (DeadKernelError, RuntimeError) as error:
            reason = f"the notebook's kernel ended: {error}" if self.cell else f"no start: {error}"
            return self._stalled() or Failure("died", self.cell, one_line(reason))
        return None

    def _failed(self, error: CellExecutionError) -> Failure:
        report = plain(str(error))
        kind = "died" if SIGNALLED.search(plain(error.evalue)) else "raised"
        reason = one_line(f"{error.ename}: {plain(error.evalue) or line_of(report)}")
        return self._stalled(report) or Failure(kind, self.cell, reason, report)

    def _stalled(self, report: str = "") -> Failure | None:
        if not self.stood_still:
            return None
        reason = f"nothing in it got on for {self.stall:g} s: no processor time, no output"
        return Failure("stalled", self.cell, reason, report)

    def _begin(self, cell, cell_index: int) -> None:
        self.cell = cell.id
        self.watch.begin(cell.id)
        self._turns.begin(cell)
        self.watch.progress()

    def _end(self, cell, cell_index: int, execute_reply) -> None:
        self._turns.end()

    def _end_what_stands_still(self) -> None:
        """Interrupt the cell, which then says where each rank is; end it if that is no help."""
        self.stood_still, cell = True, self.cell
        with suppress(ProcessLookupError):
            os.kill(self._kernel, signal.SIGINT)
        threading.Timer(GRACE, self._end_kernel, [cell]).start()

    def _end_kernel(self, cell: str) -> None:
        if self.cell == cell:
            with suppress(ProcessLookupError):
                os.kill(self._kernel, signal.SIGKILL)


def one_line(text: str) -> str:
    """The first line of `text` that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def line_of(report: str) -> str:
    """The line of the cell that raised, which says more than an assertion without words."""
    found = ARROW.search(report)
    return found[1].strip() if found else ""


def plain(text: str) -> str:
    """Without the escape sequences of a terminal."""
    return ESCAPES.sub("", text)


def _children() -> float:
    """Processor seconds of all processes below this one that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
