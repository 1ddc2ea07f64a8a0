"""The stop button: ranks are asked to end their cell, then cut loose, and killed at last."""

import signal
import sys
import threading
import time
from contextlib import contextmanager

from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.report import IGNORED
from rankbook.live.ranks.lookout import CellWatchdog
from rankbook.live.ranks.process import RankProcess

POLITE = 1.0  # seconds from the request to end until collectives are cut
WARN = 3.0  # seconds until the reader is told of a rank that does not end
KILL = 10.0  # seconds that a rank ignores the request
IMPATIENT = 2.0  # the same, once the reader has asked three times


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


class Interrupt:
    """Ends the cell of `ranks` once the reader has asked for it.

    A rank's time runs from when it was asked, however late the reader's request was noticed.
    """

    def __init__(
        self, ranks: dict[int, RankProcess], endings: dict[int, RankOutcome], lookout: CellWatchdog
    ):
        self.ranks, self.endings, self._lookout = ranks, endings, lookout
        self.began: float | None = None  # when the first request was noticed
        self._requests = 0
        self._to_ask: set[int] = set()
        self._asked: dict[int, float] = {}  # when each was first asked
        self._warned = False

    def stop(self, busy: set[int], requests: int) -> None:
        """Do what is due for the `busy` ranks, after so many `requests` of the reader."""
        now = time.monotonic()
        self.began = self.began or now
        if requests > self._requests:  # asked again: the ranks are asked again, too
            self._requests, self._to_ask = requests, set(busy)
        late = now > self.began + POLITE
        self._ask(busy & self._to_ask, whatever_they_do=late)
        if late and now > self._lookout.cut_at + POLITE:
            self._lookout.cut(self._lookout.where(busy), busy)
        self._give_up(busy, KILL if requests < 3 else IMPATIENT)

    def _ask(self, ranks: set[int], whatever_they_do: bool) -> None:
        """Signal the ranks that are in the cell's code; elsewhere ipykernel gets lost."""
        calls = self._lookout.where(ranks)
        for rank in ranks:
            if whatever_they_do or (rank in calls and calls[rank].line):
                self._to_ask.discard(rank)
                self._asked.setdefault(rank, time.monotonic())
                self.ranks[rank].signal(signal.SIGINT)

    def _give_up(self, busy: set[int], patience: float) -> None:
        since = {rank: time.monotonic() - self._asked.get(rank, float("inf")) for rank in busy}
        for rank, seconds in since.items():
            if seconds > patience:
                self.endings[rank].gone = IGNORED
                self.ranks[rank].signal(signal.SIGKILL)
            elif seconds > WARN and not self._warned:
                self._warned = True
                left = f"; it is killed {KILL - seconds:.0f} s from now"
                print(f"[{rank}] has not ended its cell yet{left}", file=sys.stderr)
