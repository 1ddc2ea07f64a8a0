"""A schedule's picture shows its boxes, what is hatched, and what each rank holds."""

from types import SimpleNamespace

import pytest
from matplotlib.colors import to_hex

import plots
from plots.schedule_steps import GOES

ROWS = [
    (0, 0, "F", 0, 0, 1), (0, 0, "F", 1, 1, 2), (0, 0, "B", 0, 4, 6), (0, 0, "B", 1, 6, 8),
    (1, 1, "F", 0, 1, 1.5), (1, 2, "F", 0, 1.5, 2), (1, 2, "I", 0, 2, 3), (1, 1, "I", 0, 3, 3),
    (1, 2, "W", 0, 3, 4),
]  # fmt: skip
HELD = {0: [(0, 1), (1, 2), (6, 1), (8, 0)], 1: [(0, 0), (1, 0.5), (1.5, 1), (4, 0.5)]}


def two_ranks(start: float = 5.0) -> SimpleNamespace:
    actions = [
        SimpleNamespace(rank=r, stage=s, kind=k, microbatch=m, start=start + a, end=start + b)
        for r, s, k, m, a, b in ROWS
    ]
    return SimpleNamespace(
        actions=actions, ranks=[0, 1], start=start, span=8.0,
        computed=lambda rank: [action for action in actions if action.rank == rank],
    )  # fmt: skip


def hatched(axes) -> list[tuple[float, ...]]:
    """Left, right, bottom, top of everything hatched."""
    found = []
    for each in axes.collections:
        if each.get_hatch():
            assert to_hex(each.get_edgecolor()[0]) == GOES
            (left, low), (right, high) = (
                each.get_paths()[0].vertices.min(axis=0), each.get_paths()[0].vertices.max(axis=0),
            )  # fmt: skip
            found.append((left, right, low, high))
    return found


@pytest.mark.given("idle")
def test_boxes_and_gaps():
    figure = plots.schedule_step(two_ranks(), HELD, gaps={0: [(2, 4)], 1: [(0, 0.5)]}, note="idle")
    rows, *memory = figure.axes
    assert len(memory) == 2
    words = [text.get_text() for text in rows.texts]
    # every box but the one of no length has its microbatch; a gap of one F or more its length
    assert words == ["0", "1", "0", "1", "2", "0", "0", "0", "0"]
    assert [box[:2] for box in hatched(rows)] == [(2, 4), (0, 0.5)]
    assert [label.get_text() for label in rows.get_yticklabels()] == ["rank 0", "rank 1"]


def test_memory():
    figure = plots.schedule_step(two_ranks(), HELD, ceiling={0: 1, 1: 1}, until=18)
    rows, first, second = figure.axes
    assert not hatched(rows)
    assert hatched(first) == [(1, 6, 1, 2)] and hatched(second) == []
    assert [axes.texts[0].get_text() for axes in (first, second)] == ["at most 2", "at most 1"]
    assert first.get_ylim() == second.get_ylim()
    assert second.get_xlim()[1] > 18
    (line,) = first.lines
    assert list(line.get_xdata()) == [0, 1, 6, 8, 8] and list(line.get_ydata()) == [1, 2, 1, 0, 0]
