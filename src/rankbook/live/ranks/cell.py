"""One cell on all its ranks: send it, show what comes back, end it when a rank fails."""

import json
import signal
import sys
import threading
import time
from contextlib import contextmanager

import zmq

from rankbook.live.output import Item, Merger
from rankbook.live.ranks.call import Call
from rankbook.live.ranks.process import RankProcess, control
from rankbook.live.ranks.report import Outcome, Report
from rankbook.live.show import Screen

GRACE = 0.3  # seconds that the other ranks get to end by themselves once a rank has failed
AGAIN = 0.5  # seconds between two looks at ranks that are still busy after that
HINT = 4.0  # seconds of silence after which ranks that only wait are looked at
LOOK = 1.0  # seconds from one such look to the next: in between, a rank that hangs uses no time
IDLE = LOOK / 10  # processor time up to which a rank only waits: its kernel uses up to 0.02 s
POLITE = 1.0  # seconds after an interrupt until collectives are cut
KILL = 4.0  # seconds after an interrupt that a rank ignores


@contextmanager
def interrupts():
    """Count Ctrl-C (or the stop button) instead of raising in the middle of a message."""
    seen = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


class CellRun:
    """The run of one cell on `ranks`, from sending to the report."""

    def __init__(self, ranks: dict[int, RankProcess], code: str, number: int | None, silent=False):
        self.ranks = ranks
        self.screen = Screen()
        self.merger = Merger(ranks, self.screen.emit, self.screen.bar)
        self.outcomes = {rank: Outcome() for rank in ranks}
        self.busy = set(ranks)
        self.cut = False
        self._idle: dict[int, float] = {}
        self._signalled: set[int] = set()
        self._interrupted = False
        self._cut_at = 0.0
        self._seen_at: dict[int, float] = {}  # processor time of each rank at the last look
        self._replied: set[int] = set()
        self._failed_at: float | None = None
        self._next_look: float | None = None
        self._hint_at = time.monotonic() + HINT
        self._waiting_told = silent
        self._poller = zmq.Poller()
        self._sockets = {}
        for rank, process in ranks.items():
            for socket in (process.iopub, process.shell, process.process.sentinel):
                self._poller.register(socket, zmq.POLLIN)
                self._sockets[socket] = rank
        self._send = lambda process: process.execute(code, silent, number)
        self._ids: dict[int, str] = {}

    def run(self, world_size: int) -> Report:
        """Run to the end; never raises for what the ranks do, nor for an interrupt."""
        with interrupts() as seen:
            self._ids = {rank: self._send(process) for rank, process in self.ranks.items()}
            while self.busy:
                self._read()
                self.merger.flush()
                self.screen.flush()
                if seen:
                    self._stop_busy(seen)
                elif self._failed_at is not None:
                    self._look_after_failure()
                elif time.monotonic() > self._hint_at:
                    self._hint()
            self.merger.flush(everything=True)
            self.screen.close()
            self._ask_where_errors_came_from()
        return Report(self.outcomes, world_size, bool(seen), self.group_lost)

    @property
    def group_lost(self) -> bool:
        """Whether the ranks may no longer agree on what was communicated."""
        outcomes = self.outcomes.values()
        errors = {(o.error["ename"], o.call.line) if o.error else None for o in outcomes}
        same = len(errors) == 1 and not any(o.consequence or o.mismatch for o in outcomes)
        return self.cut or self._interrupted or (self._failed_at is not None and not same)

    # reading

    def _read(self) -> None:
        for socket in dict(self._poller.poll(50)):
            rank = self._sockets[socket]
            if rank in self.busy:
                self._read_rank(rank)

    def _read_rank(self, rank: int) -> None:
        process = self.ranks[rank]
        alive = process.alive  # before reading: what it said last must not be lost
        for socket in (process.iopub, process.shell):
            for message in process.messages(socket):
                if message["parent"] == self._ids[rank]:
                    self._take(rank, message["msg_type"], message["content"])
        if rank in self._idle and rank in self._replied:
            self.outcomes[rank].finished = self.outcomes[rank].error is None
            self._end(rank)
        elif not alive:
            outcome = self.outcomes[rank]
            outcome.death = outcome.death or process.ending()
            outcome.crash = process.crash_report()
            self._failed()
            self._end(rank)

    def _take(self, rank: int, kind: str, content: dict) -> None:
        if kind == "stream":
            self._hint_at = time.monotonic() + HINT
            self.merger.add(rank, content["name"], content["text"])
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.merger.add_item(rank, _display_item(kind, content))
        elif kind == "clear_output":
            self.merger.flush(everything=True)
            self.screen.clear(content["wait"])
        elif kind == "execute_reply":
            self._replied.add(rank)
            if content["status"] != "ok":
                self.outcomes[rank].error = content
                self._failed()
        elif kind == "status" and content["execution_state"] == "idle":
            self._idle[rank] = time.monotonic()

    def _end(self, rank: int) -> None:
        self.busy.discard(rank)
        self.merger.finish(rank)
        process = self.ranks[rank]
        for socket in (process.iopub, process.shell, process.process.sentinel):
            self._poller.unregister(socket)

    def _failed(self) -> None:
        if self._failed_at is None:
            self._failed_at = time.monotonic()
            self._next_look = self._failed_at + GRACE

    # ending what does not end by itself

    def _look_after_failure(self) -> None:
        """A rank failed: get the others out of collectives that can never complete."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + AGAIN
        calls = self._where(self.busy)
        in_collectives = {r: call for r, call in calls.items() if call.op}
        self._cut(in_collectives, in_collectives)
        if waiting := {r: c for r, c in calls.items() if not c.op and c.line}:
            self._tell_waiting(waiting)

    def _tell_waiting(self, calls: dict[int, Call]) -> None:
        if self._waiting_told:
            return
        self._waiting_told = True
        failed = sorted(r for r, o in self.outcomes.items() if o.error or o.death)
        for rank, call in calls.items():
            print(f"[{rank}] goes on after rank {failed[0]} failed: {call.place}", file=sys.stderr)

    def _stop_busy(self, seen: list[float]) -> None:
        """The reader interrupts: first politely, then the collective, then the process."""
        self._interrupted = True  # the ranks stop where they are, not all at the same call
        now, pressed = time.monotonic(), seen[0]
        if len(seen) > 1 or now > pressed + KILL:
            for rank in self.busy:
                self.outcomes[rank].death = "it ignored the interrupt and was killed"
                self.ranks[rank].signal(signal.SIGKILL)
        elif now > max(pressed + POLITE, self._cut_at + POLITE):
            self._cut(self._where(self.busy), self.busy)
        else:
            self._interrupt_cells()

    def _interrupt_cells(self) -> None:
        """Signal the ranks that are in the cell's code, once; elsewhere ipykernel gets lost."""
        for rank, call in self._where(self.busy - self._signalled).items():
            if call.line:
                self._signalled.add(rank)
                self.ranks[rank].signal(signal.SIGINT)
        for rank in self.busy & self._idle.keys():
            if time.monotonic() - self._idle[rank] > AGAIN:  # lost after all: it sends no reply
                lost = {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
                self.outcomes[rank].error = lost
                self._failed()
                self._end(rank)

    def _cut(self, calls: dict[int, Call], ranks) -> None:
        """Make the collectives of `ranks` raise; `calls` is what is known of where they were."""
        for rank, call in calls.items():
            self.outcomes[rank].call, self.outcomes[rank].blocked = call, bool(call.op)
        if ranks:
            self.cut = True
            control([self.ranks[r] for r in sorted(ranks)], "cut")
            self._cut_at = time.monotonic()

    def _hint(self) -> None:
        """Nothing was shown for a while: if all hang in collectives, say so, once."""
        calls, before = self._where(self.busy), self._seen_at
        self._seen_at = {rank: call.cpu for rank, call in calls.items()}
        self._hint_at = time.monotonic() + LOOK
        hang = all(c.op and c.cpu - before.get(r, 0.0) < IDLE for r, c in calls.items())
        if not (calls and hang):
            return
        self._hint_at = float("inf")
        missing = sorted(set(self.ranks) - self.busy)
        for rank, call in calls.items():
            print(f"[{rank}] still waits in {call.place}", file=sys.stderr)
        for rank in missing:
            print(f"[{rank}] has finished the cell", file=sys.stderr)

    def _where(self, ranks: set[int]) -> dict[int, Call]:
        answers = control([self.ranks[r] for r in sorted(ranks)], "where", busy=True)
        return {rank: Call(**answer) for rank, answer in answers.items()}

    def _ask_where_errors_came_from(self) -> None:
        raised = [r for r, o in self.outcomes.items() if o.error and not o.blocked]
        answers = control([self.ranks[r] for r in raised], "where", busy=False)
        for rank, answer in answers.items():
            self.outcomes[rank].call = Call(**answer)


def _display_item(kind: str, content: dict) -> Item:
    display = {
        "data": content["data"],
        "metadata": content["metadata"],
        "update": kind == "update_display_data",
        "display_id": content.get("transient", {}).get("display_id"),
    }
    return Item("display", json.dumps(display, sort_keys=True))
