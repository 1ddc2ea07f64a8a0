"""Causal attention among ranks: each query's keys have its rank's colour, and none is left out."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex

import plots
from plots.theme import color


def area(patch) -> float:
    """Of a polygon, by the shoelace formula."""
    steps = pairwise(patch.get_xy())
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in steps) / 2)


@pytest.mark.given("blocks", "zigzag")
def test_the_triangle_is_filled_and_bars_count_its_pairs():
    orders = {"blocks": [[0, 1], [2, 3]], "zigzag": [[0, 3], [1, 2]]}
    blocks, zigzag, below, level = plots.attention_pairs(orders).axes
    for axes, runs in ((blocks, 2), (zigzag, 3)):
        assert len(axes.patches) == runs
        assert sum(area(patch) for patch in axes.patches) == 4 * 4 / 2
    assert [to_hex(patch.get_facecolor()) for patch in zigzag.patches] == [
        color(0), color(0), color(1)
    ]  # fmt: skip
    assert [bar.get_width() for bar in below.patches] == [3, 7]
    assert [bar.get_width() for bar in level.patches] == [5, 5]


def test_a_rank_without_positions():
    with pytest.raises(ValueError, match=r"^attention_pairs: give it"):
        plots.attention_pairs({"blocks": [[0], []]})
