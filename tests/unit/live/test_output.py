"""Merging what ranks print: order kept, equal lines once, nothing lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbook.live.screen.output import Item, Merger, label


class Clock:
    """Time that a test moves by hand."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def merger(ranks, clock, shown, bars=None):
    bar = None if bars is None else lambda *args: bars.append(args)
    return Merger(ranks, lambda r, item: shown.append((label(r), item.content)), bar, clock=clock)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [({0}, "[0]"), ({0, 1, 2, 3}, "[0-3]"), ({2, 0}, "[0,2]"), ({0, 1, 3, 5, 6}, "[0-1,3,5-6]")],
)
def test_label(ranks, text):
    assert label(ranks) == text


def test_equal_lines_are_shown_once_and_at_once(clock):
    shown = []
    m = merger([0, 1], clock, shown)
    m.add(0, "stdout", "same\n")
    m.flush()
    assert shown == []
    m.add(1, "stdout", "same\n")
    m.flush()
    assert shown == [("[0-1]", "same")]


def test_a_line_waits_for_its_twin_no_longer_than_the_window(clock):
    shown = []
    m = merger([0, 1], clock, shown)
    m.add(0, "stdout", "alone\n")
    clock.now = 0.2
    m.flush()
    assert shown == [("[0]", "alone")]


def test_a_line_of_one_rank_does_not_split_the_lines_of_all(clock):
    shown = []
    m = merger([0, 1], clock, shown)
    m.add(0, "stdout", "all\nonly 0\nend\n")
    m.add(1, "stdout", "all\nend\n")
    m.flush()
    assert shown == [("[0-1]", "all"), ("[0]", "only 0"), ("[0-1]", "end")]


def test_pieces_of_a_line_come_together(clock):
    shown = []
    m = merger([0], clock, shown)
    for piece in ("he", "llo\nwor", "ld"):
        m.add(0, "stdout", piece)
    m.finish(0)
    m.flush()
    assert shown == [("[0]", "hello"), ("[0]", "world")]


def test_the_same_text_on_two_streams_is_not_merged(clock):
    shown = []
    m = merger([0, 1], clock, shown)
    m.add(0, "stdout", "x\n")
    m.add(1, "stderr", "x\n")
    m.flush(everything=True)
    assert shown == [("[0]", "x"), ("[1]", "x")]


def test_a_progress_bar_is_no_line(clock):
    shown, bars = [], []
    m = merger([0], clock, shown, bars)
    m.add(0, "stderr", "\r 10%|#")
    m.add(0, "stderr", "\r 20%|##")
    m.add(0, "stderr", "\r100%|##########\n")
    m.finish(0)
    m.flush()
    assert shown == []
    assert bars == [(0, " 10%|#", False), (0, " 20%|##", False), (0, "100%|##########", True)]


def test_displays_keep_their_place_between_lines(clock):
    shown = []
    m = merger([0], clock, shown)
    m.add(0, "stdout", "before")
    m.add_item(0, Item("display", "figure"))
    m.add(0, "stdout", "after\n")
    m.flush(everything=True)
    assert [content for _, content in shown] == ["before", "figure", "after"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=40))
def test_every_rank_keeps_its_order_and_loses_nothing(lines):
    shown, clock = [], Clock()
    m = Merger(range(4), lambda ranks, item: shown.append((ranks, item.content)), clock=clock)
    for i, (rank, line) in enumerate(lines):
        m.add(rank, "stdout", line + "\n")
        clock.now = i * 0.05
        m.flush()
    for rank in range(4):
        m.finish(rank)
    m.flush(everything=True)
    for rank in range(4):
        assert [c for r, c in shown if rank in r] == [c for r, c in lines if r == rank]


def test_what_waits_can_be_shortened():
    shown = []
    merger = Merger([0, 1], lambda ranks, item: shown.append((ranks, item.content)), window=60.0)
    merger.add(0, "stdout", "".join(f"{i}\n" for i in range(10)))
    merger.shorten(3)
    merger.add(0, "stdout", "10\n11\n")
    merger.shorten(3)
    merger.finish(0)
    merger.flush(everything=True)
    assert shown[:3] == [({0}, "0"), ({0}, "1"), ({0}, "2")]
    assert shown[3:] == [({0}, "... 9 more lines, which are not shown")]


def test_showing_takes_turns():
    """A flush that has no more time says so, and another one goes on where it ended."""
    now, shown = iter(range(1000)), []
    emit = lambda ranks, item: shown.append(item.content)  # noqa: E731
    merger = Merger([0], emit, clock=lambda: float(next(now)))
    merger.add(0, "stdout", "a\nb\nc\nd\n")
    assert not merger.flush(seconds=1.5)
    assert shown == ["a", "b"]
    assert merger.flush(seconds=100.0)
    assert shown == ["a", "b", "c", "d"]


def test_nobody_to_merge_is_nothing_to_show():
    """torchrun shows the output itself (`--tee`)."""
    merger = Merger([], lambda ranks, item: None)
    assert merger.flush(everything=True)
