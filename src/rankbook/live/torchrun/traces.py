"""How the workers of a launch ended, from the notes that they and their agent left."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome
from rankbook.live.failure.parting import from_wire
from rankbook.live.torchrun import witness, worker_failure
from rankbook.live.torchrun.notes import find_note, read_notes

# gloo, of a message that is longer than what it waits for: it ends the process.
# https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc
OTHER_SIZE = b"op.preamble.length <= op.nbytes"
LAST_WORDS = 1 << 14  # bytes


@dataclass(frozen=True)
class Traces:
    """What a worker left in the launch's directory.

    report: on its exception (`worker_failure.describe`). exited: when it ended well. answer: where
    it was when it was asked (`witness`). stack: where a signal hit it (`worker_failure.where`).
    other_size: whether gloo ended it, for what another rank sent.
    """

    report: dict | None = None
    exited: dict | None = None
    answer: dict | None = None
    stack: dict | None = None
    other_size: bool = False

    @property
    def call(self) -> Call | None:
        """Its last known call: from its own report, which is richer, else from a signal's stack."""
        if self.report:
            return Call(**self.report["call"])
        line = self.stack["line"] if self.stack else None
        if self.answer and line in (None, self.answer["call"]["line"]):
            return Call(**self.answer["call"])
        return Call(text=self.stack["call"], line=line) if self.stack and line else None


def exited(directory: Path, pid: int) -> dict | None:
    """When the process `pid` came to the end of the program ("time"), as it noted; else None."""
    return find_note(directory / "exits" / f"{pid}.json")


def collect(directory: Path, node: str, workers: list[dict], end: dict) -> list[RankOutcome]:
    """How the `workers` of a failed launch ended; end: what its agent noted at last."""
    told = {worker["pid"]: worker for worker in end.get("workers", [])}
    reports = {report["pid"]: report for report in read_notes(directory / "reports").values()}
    endings = []
    for worker in workers:
        pid = worker["pid"]
        ended = exited(directory, pid)
        if ended is None and told and pid not in told:  # os._exit(0)
            ended = {"time": 0.0}
        stack = worker_failure.where(directory / "stacks" / str(pid), directory / "cell.py")
        said = told.get(pid)
        aborted = bool(said) and said["code"] == -signal.SIGABRT and _got_another_size(worker)
        answer = witness.answer(directory, pid)
        traces = Traces(reports.get(pid), ended, answer, stack, aborted)
        endings.append(ending(node, worker, said, traces))
    return endings


def _got_another_size(worker: dict) -> bool:
    """Whether the last words of a worker that gloo aborted say that sizes differed."""
    with suppress(OSError), (Path(worker["logs"]) / "stderr.log").open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_WORDS))
        return OTHER_SIZE in log.read()
    return False


def ending(node: str, worker: dict, told: dict | None, left: Traces) -> RankOutcome:
    """How a worker ended, from the notes of the launch.

    worker: who it was (`worker.py`). told: what the agent said of it, if it said anything.
    """
    report, exited = left.report, left.exited
    code = told["code"] if told else 0 if exited else None
    names = ("type", "message", "traceback", "evidence")
    raised = Raised.of(*(report[name] for name in names)) if report else None
    known = next((note["time"] for note in (report, told, exited) if note), None)
    calls = next((note.get("calls", ()) for note in (report, exited, left.answer) if note), ())
    return RankOutcome(
        rank=worker["rank"],
        node=node,
        raised=raised,
        code=code,
        call=None if exited else left.call,
        finished=bool(exited),
        calls=from_wire(calls),
        parted=left.other_size,
        time=time.time() if known is None else known,
    )
