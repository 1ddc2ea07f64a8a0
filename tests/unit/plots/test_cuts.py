"""Cut matrices: each rank's shard lies where the cut puts it, in the rank's colour."""

import pytest
from matplotlib.colors import to_hex

import plots
from plots.theme import color


def placed(axes) -> list[tuple]:
    """Of every shard: left, top, width, height, colour."""
    return [
        (*(round(v, 6) for v in (*patch.get_xy(), patch.get_width(), patch.get_height())),
         to_hex(patch.get_facecolor()))
        for patch in axes.patches
    ]  # fmt: skip


@pytest.mark.given("up", "down")
def test_rows_lie_below_each_other_and_columns_side_by_side():
    rows, columns = plots.shards({"up": (0, [(6, 4), (2, 4)]), "down": (1, [(4, 6), (4, 2)])}).axes
    assert placed(rows) == [(0, 0, 1, 0.75, color(0)), (0, 0.75, 1, 0.25, color(1))]
    assert placed(columns) == [(0, 0, 0.75, 1, color(0)), (0.75, 0, 0.25, 1, color(1))]
    assert {text.get_text() for text in rows.texts} == {"0", "1", "2 of 6 × 4"}


@pytest.mark.parametrize("dimension", [0, 1])
def test_many_shards_are_all_there_and_every_eighth_has_its_number(dimension):
    (axes,) = plots.shards({"up.weight": (dimension, [(2, 2)] * 64)}).axes
    assert len(axes.patches) == 64
    numbers = [str(rank) for rank in range(0, 64, 8)]
    assert [text.get_text() for text in axes.texts] == [*numbers, "64 of 2 × 2"]


def test_five_matrices_take_two_rows():
    figure = plots.shards({f"{i}.weight": (0, [(1, 1)] * 2) for i in range(5)})
    assert len([axes for axes in figure.axes if axes.patches]) == 5


def test_shards_that_make_no_matrix():
    with pytest.raises(ValueError, match=r"^shards: those of up differ where they are not cut$"):
        plots.shards({"up": (0, [(2, 4), (2, 3)])})
