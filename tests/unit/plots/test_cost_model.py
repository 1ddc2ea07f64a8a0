"""The figures of what is computed for many nodes."""

from math import inf

import pytest
from matplotlib.colors import to_hex

from plots import color
from plots.cost_model import (
    agents_meet,
    all_reduce_at_scale,
    share_at_scale,
    start_at_scale,
    start_up_measured,
)


def named(axes) -> list[str]:
    """The names at the lines' ends, from the lowest."""
    return [text.get_text() for text in axes.texts]


def test_starting_and_what_never_ends():
    importing = {
        "shared files": {8: 1.0, 64: 10.0, 512: 100.0},
        "one image file": {512: inf, 64: 3.0, 8: 1.0},
    }
    figure = start_at_scale(importing, "assumed: latency 10 µs, bucket 2 MB")
    (axes,) = figure.axes
    assert figure.get_supxlabel() == "assumed: latency 10 µs\nbucket 2 MB"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "64", "512"]
    whole, ends, never = axes.lines
    assert list(whole.get_ydata()) == [1, 10, 100]
    assert list(ends.get_xdata()) == [8, 64] and list(never.get_xdata()) == [512]
    assert to_hex(never.get_color()) == to_hex(ends.get_color()) == color(1)
    assert named(axes) == ["one image file", "shared files"]


def test_measured_starts_are_bars_with_what_was_computed_upon_them():
    rows = [
        {"way": way, "nodes": nodes, "ranks": ranks, "measured": 4.0, "computed": 3.0}
        for nodes, ranks in ((1, 1), (4, 2))
        for way in ("shared", "image")
    ]
    (axes,) = start_up_measured(rows).axes
    assert [bar.get_width() for bar in axes.patches] == [4.0] * 4
    assert [list(line.get_xdata()) for line in axes.lines] == [[3.0, 3.0]] * 2
    ticks = [tick.get_text() for tick in axes.get_yticklabels()]
    assert ticks == ["1 × 1", "4 × 2"]
    assert named(axes) == ["4.0"] * 4


def test_agents_that_meet_with_what_was_computed():
    rows = [{"agents": n, "median": 2.0, "p10": 1.0, "p90": 3.0} for n in (2, 4)]
    (axes,) = agents_meet(rows, {2: 1.5}).axes
    measured, computed = axes.lines
    assert list(measured.get_ydata()) == [2, 2] and list(computed.get_ydata()) == [1.5]
    assert named(axes) == ["computed", "measured"]


def test_all_reduce_in_milliseconds_with_its_crossing():
    links = {"3200 Gbit/s a node, assumed": {"ring": {8: 0.5, 64: 1.0}, "tree": {8: 0.7, 64: 0.8}}}
    (axes,) = all_reduce_at_scale(links, dict.fromkeys(links, 20)).axes
    ring, _, crossing = axes.lines
    assert list(ring.get_ydata()) == [500, 1000] and set(crossing.get_xdata()) == {20}
    assert named(axes) == ["from 20 nodes on the ring mostly waits", "tree", "ring"]


def test_shares_start_at_nothing():
    left, right = share_at_scale({"8 stages, ZBV": {8: 0.1, 64: 0.3}}, {"sharded": {8: 0.2}}).axes
    assert left.get_ylim()[0] == right.get_ylim()[0] == 0
    assert left.yaxis.get_major_formatter()(0.3, 0) == "30%"


def test_a_way_without_nodes_is_nothing_to_draw():
    with pytest.raises(ValueError, match="there is nothing to draw"):
        start_at_scale({"at once": {}})
