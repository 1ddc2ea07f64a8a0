"""Which rank is asked to end when, after the stop button: `rankbook.live.ranks.interrupt`."""

import signal
from types import SimpleNamespace

import pytest

from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import RankOutcome
from rankbook.live.ranks import interrupt
from rankbook.live.ranks.interrupt import IMPATIENT, KILL, POLITE, WARN, Interrupt

IN_THE_CELL, BEFORE = Call(line=2), Call(text="elsewhere")
BUSY = {0, 1}


class Told:
    """Two ranks, a lookout that sees them where the test says, and a clock that the test sets."""

    def __init__(self, monkeypatch):
        self.now, self.calls, self.cut, self.cut_at = 100.0, {}, [], 0.0
        self.signals: list[tuple[int, int]] = []
        monkeypatch.setattr(interrupt, "time", SimpleNamespace(monotonic=lambda: self.now))
        ranks = {rank: self._rank(rank) for rank in BUSY}
        self.endings = {rank: RankOutcome(rank) for rank in BUSY}
        lookout = SimpleNamespace(where=self._where, cut=self._cut, cut_at=0.0)
        self.lookout, self._interrupt = lookout, Interrupt(ranks, self.endings, lookout)

    def _rank(self, rank: int) -> SimpleNamespace:
        return SimpleNamespace(signal=lambda number: self.signals.append((rank, number)))

    def _where(self, ranks: set[int]) -> dict[int, Call]:
        return {rank: call for rank, call in self.calls.items() if rank in ranks}

    def _cut(self, calls: dict[int, Call], ranks: set[int]) -> None:
        self.cut.append(set(ranks))
        self.lookout.cut_at = self.now

    def stop(self, requests: int, busy: set[int] = BUSY) -> list[tuple[int, int]]:
        """What the ranks are sent now."""
        self.signals.clear()
        self._interrupt.stop(set(busy), requests)
        return list(self.signals)


@pytest.fixture
def told(monkeypatch):
    return Told(monkeypatch)


ASKED = [(rank, signal.SIGINT) for rank in BUSY]


def test_ranks_in_the_cell_are_asked_at_once_and_once(told):
    told.calls = dict.fromkeys(BUSY, IN_THE_CELL)
    assert told.stop(1) == ASKED
    assert told.stop(1) == [] and not told.cut


@pytest.mark.parametrize("before", [{}, {1: BEFORE}], ids=["does not answer", "is not in the cell"])
def test_one_that_has_not_begun_is_asked_when_it_has(told, before):
    """Before, ipykernel would lose the signal, and the rank would run the cell alone."""
    told.calls = {0: IN_THE_CELL} | before
    assert told.stop(1) == [(0, signal.SIGINT)]
    told.now += POLITE
    assert told.stop(1, {1}) == []
    told.calls[1] = IN_THE_CELL
    assert told.stop(1, {1}) == [(1, signal.SIGINT)]


def test_later_it_is_asked_wherever_it_is_and_collectives_are_cut(told):
    told.calls = {0: IN_THE_CELL, 1: BEFORE}
    told.stop(1)
    told.now += POLITE + 0.1
    assert told.stop(1) == [(1, signal.SIGINT)] and told.cut == [BUSY]
    told.now += POLITE
    assert told.stop(1) == [] and told.cut == [BUSY]  # not each time
    told.now += 0.1
    told.stop(1, {1})
    assert told.cut == [BUSY, {1}]


def test_a_reader_who_asks_again_has_all_asked_again(told):
    told.calls = dict.fromkeys(BUSY, IN_THE_CELL)
    told.stop(1)
    assert told.stop(2) == ASKED and told.stop(2) == []


@pytest.mark.parametrize(("requests", "patience"), [(1, KILL), (2, KILL), (3, IMPATIENT)])
def test_who_does_not_end_is_killed(told, requests, patience):
    told.calls = dict.fromkeys(BUSY, IN_THE_CELL)
    told.stop(requests)
    told.now += patience
    assert told.stop(requests) == []
    told.now += 0.1
    assert told.stop(requests, {1}) == [(1, signal.SIGKILL)]
    assert told.endings[1].gone == "it ignored the interrupt and was killed"
    assert not told.endings[0].gone


def test_the_time_of_one_runs_from_when_it_was_asked(told):
    """However late it came into the cell."""
    told.calls = {0: IN_THE_CELL, 1: BEFORE}
    told.stop(1)
    told.now += POLITE
    told.calls[1] = IN_THE_CELL
    told.stop(1, {1})
    told.now += KILL
    assert (1, signal.SIGKILL) not in told.stop(1, {1})
    told.now += 0.1
    assert (1, signal.SIGKILL) in told.stop(1, {1})


def test_the_reader_is_told_once_of_one_that_stays(told, capsys):
    told.calls = dict.fromkeys(BUSY, IN_THE_CELL)
    told.stop(1)
    for _ in range(2):
        told.now += WARN + 0.5
        told.stop(1, {1})
    said = capsys.readouterr().err
    left = f"it is killed {KILL - WARN - 0.5:.0f} s from now"
    assert said == f"[1] has not ended its cell yet; {left}\n"
