"""What the notebook does about ranks that wait: it looks at them, tells, and cuts them loose."""

import sys
import time

from rankbook.live.failure import hang
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.hang import HINT, LOOK, STUCK
from rankbook.live.failure.parting import from_wire, mark
from rankbook.live.ranks import parting
from rankbook.live.ranks.process import RankProcess, control

GRACE = 0.3  # seconds that the other ranks get to end by themselves once a rank has failed
AGAIN = 0.5  # seconds between two looks at ranks that are still busy after that


class CellWatchdog:
    """Follows the `ranks` of one cell; what it learns of them it notes in their `endings`.

    silent: nothing is told while the cell runs.
    """

    def __init__(
        self, ranks: dict[int, RankProcess], endings: dict[int, RankOutcome], silent: bool
    ):
        self.ranks, self.endings = ranks, endings
        self.cut_at = 0.0  # when connections were cut last; 0 if never
        self.failed_at: float | None = None
        self._next_look = 0.0
        self._hint_at = time.monotonic() + HINT
        self._silent, self._waiting_told = silent, silent
        self._before: dict[str, Call] = {}  # where each rank was at the last look
        self._waits_since: dict[str, float] = {}
        self._hang_told: object = None

    def heard(self) -> None:
        """A rank showed something: it does not hang."""
        self._hint_at = time.monotonic() + HINT

    def failed(self) -> None:
        """A rank failed; the others get a moment to end by themselves."""
        if self.failed_at is None:
            self.failed_at = time.monotonic()
            self._next_look = self.failed_at + GRACE

    def look(self, busy: set[int]) -> None:
        """Look after the `busy` ranks, if it is time."""
        if self.failed_at is not None:
            self._look_after_failure(busy)
        elif time.monotonic() > self._hint_at:
            self._hint(busy)

    def _look_after_failure(self, busy: set[int]) -> None:
        """A rank failed: get the others out of collectives that can never complete."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + AGAIN
        calls = self.where(busy)
        in_collectives = {r: call for r, call in calls.items() if call.op}
        self.cut(in_collectives, in_collectives)
        if waiting := {r: c for r, c in calls.items() if not c.op and c.line}:
            self._tell_waiting(waiting)

    def _tell_waiting(self, calls: dict[int, Call]) -> None:
        if self._waiting_told:
            return
        self._waiting_told = True
        failed = sorted(r for r, e in self.endings.items() if e.raised or e.gone)
        for rank, call in calls.items():
            print(hang.goes_on(rank, failed[0], call), file=sys.stderr)

    def cut(self, calls: dict[int, Call], ranks) -> None:
        """Make the collectives of `ranks` raise; `calls` is what is known of where they were."""
        for rank, call in calls.items():
            ending = self.endings[rank]
            if not ending.blocked:  # one that was cut before is on its way out of that call
                ending.call, ending.blocked = call, bool(call.op)
        if ranks:
            control([self.ranks[r] for r in sorted(ranks)], "cut")
            self.cut_at = time.monotonic()

    def _hint(self, busy: set[int]) -> None:
        """Nothing was shown for a while: look whether ranks wait for one that does not come."""
        now, calls = time.monotonic(), {f"[{r}]": c for r, c in self.where(busy).items()}
        waits, self._before = hang.waiting(calls, self._before), calls
        self._waits_since = {rank: self._waits_since.get(rank, now) for rank in waits}
        waits = {r: c for r, c in waits.items() if now - self._waits_since[r] >= HINT - 2 * LOOK}
        ended = {f"[{r}]": "has finished the cell" for r in sorted(set(self.ranks) - busy)}
        ended |= {f"[{r}]": STUCK for r in busy if f"[{r}]" not in calls}
        state = [(rank, call.place) for rank, call in waits.items()], ended
        if waits and not self._silent and state != self._hang_told:
            self._hang_told = state
            others = {rank: call for rank, call in calls.items() if rank not in waits}
            print(*hang.format_hang(waits, others, ended), sep="\n", file=sys.stderr)
        may_wait = any(call.op for call in calls.values())
        self._hint_at = now + (LOOK if may_wait and state != self._hang_told else HINT)

    def compare(self, interrupted: bool) -> None:
        """Nobody's own failure says why the cell failed: look for calls that differ."""
        if not self._silent and parting.unexplained(self.endings, interrupted):
            for rank, found in control(list(self.ranks.values()), "made").items():
                self.endings[rank].calls = from_wire(found["calls"])
            mark(self.endings.values())

    def where(self, ranks: set[int]) -> dict[int, Call]:
        """What each of these busy ranks is executing, of those that answer."""
        answers = control([self.ranks[r] for r in sorted(ranks)], "where")
        return {rank: Call(**answer) for rank, answer in answers.items()}
