"""The steps of a speed-up: where each bar begins and ends, and what stands beside it."""

import pytest

import plots

STEPS = [
    {"name": "faster", "times": 4.0, "share": 2.0},
    {"name": "slower", "times": 0.5, "share": -1.0},
]


@pytest.mark.given("faster", "slower", "times as fast as the plain loop")
def test_each_bar_begins_where_the_last_one_ended():
    (axes,) = plots.speed_up_steps(STEPS, "the plain loop").axes
    boxes = [bar.get_extents().transformed(axes.transData.inverted()) for bar in axes.patches]
    ends = [sorted((round(box.x0, 6), round(box.x1, 6))) for box in boxes]
    assert ends == [[1.0, 4.0], [2.0, 4.0]]
    assert [text.get_text().strip() for text in axes.texts] == ["4.00x, 200%", "0.50x, -100%"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["faster", "slower"]
    assert "the plain loop" in axes.get_xlabel()
