"""Predictions are drawn to scale beside what was recorded, and with what they assume."""

import pytest
from matplotlib.colors import to_hex

import plots
from plots.theme import COLORS

ROWS = [
    {"schedule": "gpipe", "work": 0.4, "bare": 0.6, "predicted": 0.66, "recorded": 0.64},
    {"schedule": "zbv", "work": 0.4, "bare": 0.5, "predicted": 0.54, "recorded": 0.60},
]


def test_predictions():
    figure = plots.predictions(ROWS, tolerance=0.1)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["gpipe", "zbv"]
    bars = [(round(bar.get_x()), round(bar.get_width())) for bar in axes.patches]
    # recorded, work, and the prediction as wide as what it may be off by
    assert bars == [(0, 640), (0, 400), (594, 132), (0, 600), (0, 400), (486, 108)]
    assert [round(line.get_xdata()[0]) for line in axes.lines] == [600, 500]  # without overheads
    assert [text.get_text() for text in axes.texts] == ["+3.1%", "-10.0%"]
    assert axes.yaxis_inverted()
    assert "predicted ± 10%" in [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.given("equal", "slow link", "two a rank")
def test_idle_by_ranks():
    rows = [
        {"schedule": s, "ranks": p, "microbatches": 2 * p, "idle": i / 10, "in_flight": p}
        for i, s in enumerate(("gpipe", "1f1b"), 1)
        for p in (16, 4)
        if (s, p) != ("1f1b", 16)
    ]
    figure = plots.idle_by_ranks({"equal": rows, "slow link": rows[:2]}, "two a rank")
    equal, slow = figure.axes
    assert [list(line.get_xdata()) for line in equal.lines] == [[4, 16], [4]]
    assert [list(line.get_ydata()) for line in equal.lines] == [[0.1, 0.1], [0.2]]
    assert list(slow.lines[0].get_ydata()) == [0.1, 0.1] and list(slow.lines[1].get_xdata()) == []
    assert [to_hex(line.get_color()) for line in equal.lines] == list(COLORS[:2])
    wide, thin = (line.get_linewidth() for line in equal.lines)
    assert wide > thin  # both are seen where they are one
    assert equal.get_ylim() == slow.get_ylim() and equal.get_ylim()[0] == 0
    assert [label.get_text() for label in slow.get_xticklabels()] == ["4", "16"]
    assert [text.get_text() for text in slow.texts] == ["gpipe"]
