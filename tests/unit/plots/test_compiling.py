"""Calls of a compiled function: which made a graph, and what they took."""

import pytest

import plots


@pytest.mark.given("fixed: 2 graphs, 300 ms in all", "dynamic: 1 graph, 101 ms in all")
def test_a_panel_a_way_says_how_many_graphs():
    figure = plots.compiling_calls(
        {"fixed": [(0.1, 1), (0.2, 1)], "dynamic": [(0.1, 1), (0.001, 0)]}
    )
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["fixed: 2 graphs, 300 ms in all", "dynamic: 1 graph, 101 ms in all"]
    heights = [round(bar.get_height()) for bar in figure.axes[1].patches]
    assert heights == [100, 1]
    made, none = (bar.get_facecolor() for bar in figure.axes[1].patches)
    assert made != none
