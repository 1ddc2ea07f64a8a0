"""Timelines and simulations are drawn as they are."""

from itertools import pairwise
from operator import mul
from types import SimpleNamespace

import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba

import plots
from plots.schedules import KINDS
from plots.theme import PAPER


def line(rows: list[tuple], start: float = 5.0, span: float = 0.010) -> SimpleNamespace:
    """Of rows (rank, stage, kind, microbatch, start, end), times in ms after `start`."""
    actions = [
        SimpleNamespace(
            rank=r, stage=s, kind=k, microbatch=m, start=start + a / 1e3, end=start + b / 1e3
        )
        for r, s, k, m, a, b in rows
    ]
    ranks = sorted({row[0] for row in rows})
    return SimpleNamespace(
        actions=actions, ranks=ranks, start=start, span=span, idle_share=0.25, work={}
    )


def two_ranks() -> SimpleNamespace:
    return line([
        (0, 0, "F", 0, 0, 2), (0, 3, "B", 0, 6, 10), (1, 1, "wait", 0, -1, 2),
        (1, 1, "F", 0, 2, 4), (1, 2, "I", 12, 4, 5), (1, 2, "W", 12, 5, 6),
    ])  # fmt: skip


def boxes(axes) -> list[tuple]:
    """Colour, left, right, top of every box, in the order of drawing."""
    found = []
    for collection in axes.collections:
        assert isinstance(collection, PathCollection)
        for path in collection.get_paths():
            (left, top), (right, _) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            colour = to_hex(collection.get_facecolor()[0], keep_alpha=True)
            found.append((colour, round(left, 3), round(right, 3), round(top, 2)))
    return found


def test_timeline():
    (axes,) = plots.timeline(two_ranks(), title="1F1B").axes
    assert axes.get_title("left") == "1F1B: 25.0% idle"
    assert axes.get_xlim() == (0, pytest.approx(10.05))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    forward, backward, inputs, weights, wait = (
        to_hex(to_rgba(kind.fill, kind.alpha), keep_alpha=True) for kind in KINDS.values()
    )
    # the second stage of a rank is lower; nothing is drawn before the first action
    assert [box[:3] for box in boxes(axes)] == [
        (forward, 0, 2), (backward, 6, 10), (forward, 2, 4), (wait, 0, 2),
        (inputs, 4, 5), (weights, 5, 6),
    ]  # fmt: skip
    tops = {(c, x): top for c, x, _, top in boxes(axes)}
    assert tops[backward, 6] - tops[forward, 0] == pytest.approx(0.3)
    assert [text.get_text() for text in axes.texts] == ["0", "0", "0", "12", "12"]


@pytest.mark.given("long: 25.0% idle", "short: 25.0% idle")
def test_timelines_share_one_axis():
    short = line([(0, 0, "F", 0, 0, 2)], start=9.0, span=0.002)
    figure = plots.timelines({"long": two_ranks(), "short": short})
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim()
    assert below.get_title("left") == "short: 25.0% idle"
    assert boxes(below)[0][1:3] == (0, 2)


def test_numbers_without_room_are_left_out():
    narrow = line([(0, 0, "F", m, m / 10, (m + 1) / 10) for m in range(99)], span=0.010)
    assert [text.get_text() for text in plots.timeline(narrow).axes[0].texts] == []


def test_numbers_are_in_most_boxes_of_a_stage_or_in_none():
    """A lone number in a row of narrow boxes would look like a mark."""
    narrow = [(0, 0, "F", m, m / 10, (m + 1) / 10) for m in range(1, 9)]
    lone = line([(0, 0, "F", 0, 5, 9), *narrow], span=0.010)
    assert [text.get_text() for text in plots.timeline(lone).axes[0].texts] == []


def test_another_unit():
    (axes,) = plots.timeline(line([(0, 0, "F", 0, 0, 2000)], span=2.0), unit="forwards").axes
    assert axes.get_xlabel() == "forwards" and boxes(axes)[0][2] == 2
    assert axes.get_title("left") == "25.0% idle"


def test_kinds_differ_without_colour():
    def lightness(kind) -> float:
        on_paper = (
            kind.alpha * value + (1 - kind.alpha) * paper
            for value, paper in zip(to_rgb(kind.fill), to_rgb(PAPER), strict=True)
        )
        return 255 * sum(map(mul, (0.299, 0.587, 0.114), on_paper))

    shades = sorted(lightness(kind) for name, kind in KINDS.items() if name != "wait")
    assert all(darker + 30 < lighter for darker, lighter in pairwise(shades))
