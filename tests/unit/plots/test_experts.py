"""Where tokens go, and what experts get, drawn to scale."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch, Rectangle

import plots
from plots.theme import color

RECEIVED = {"text of WikiText-2": [[3, 1], [1, 3]], "all ids zero": [[4, 4], [0, 0]]}


def test_token_routes():
    figure = plots.token_routes(RECEIVED)
    even, all_to_one = figure.axes
    ribbons = [p for p in even.patches if isinstance(p, PathPatch)]
    assert [to_hex(p.get_facecolor()) for p in ribbons] == [color(0)] * 2 + [color(1)] * 2
    heights = [p.get_path().vertices[4, 1] - p.get_path().vertices[3, 1] for p in ribbons]
    assert heights == pytest.approx([3 / 8, 1 / 8, 1 / 8, 3 / 8])
    to_one = [p for p in all_to_one.patches if isinstance(p, PathPatch)]
    assert len(to_one) == 2  # nothing goes to rank 1
    said = [text.get_text() for text in all_to_one.texts]
    assert said == ["rank 0", "8", "rank 1", "0"]


def test_ribbons_lie_within_the_bars_of_their_ends():
    (axes,) = plots.token_routes({"a": [[5, 0, 1], [2, 2, 2], [0, 9, 3]]}).axes[:1]
    bars = [p for p in axes.patches if isinstance(p, Rectangle)]
    left, right = bars[0::2], bars[1::2]
    for ribbon in (p for p in axes.patches if isinstance(p, PathPatch)):
        corners = ribbon.get_path().vertices
        for side, of in ((corners[[0, 7], 1], left), (corners[[3, 4], 1], right)):
            assert any(
                bar.get_y() - 1e-9 <= side[0] and side[1] <= bar.get_y() + bar.get_height() + 1e-9
                for bar in of
            )


@pytest.mark.given("all", "half")
def test_all_panels_have_one_scale():
    figure = plots.token_routes({"all": [[4, 4], [4, 4]], "half": [[2, 2], [2, 2]]})
    heights = [
        [p.get_height() for p in axes.patches if isinstance(p, Rectangle)] for axes in figure.axes
    ]
    assert heights == [[0.5] * 4, [0.25] * 4]


def test_what_is_not_rank_by_rank_is_refused():
    with pytest.raises(ValueError, match="'a' has not a number from each rank"):
        plots.token_routes({"a": [[1, 2]]})


def test_expert_loads():
    loads = {"no balance": [[1, 1, 1, 1], [4, 0, 0, 4]], "a bias": np.ones((2, 4))}
    figure = plots.expert_loads(loads, ranks=2)
    nothing, bias = figure.axes
    areas = [to_hex(area.get_facecolor()[0]) for area in nothing.collections]
    assert areas == [color(0), color(0), color(1), color(1)]
    tops = [area.get_paths()[0].vertices[:, 1].max() for area in nothing.collections]
    assert tops == [50, 50, 75, 100]
    assert [line.get_ydata()[0] for line in bias.lines] == [50]


def test_ranks_that_do_not_divide_the_experts():
    with pytest.raises(ValueError, match="3 ranks cannot hold equally many of 4"):
        plots.expert_loads({"a": [[1, 1, 1, 1]]}, ranks=3)
