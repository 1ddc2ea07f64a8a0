"""The bars of three owners, and the line that says what a clock has measured."""

import pytest

from plots import owner_parts

RUNS = {
    "plain loop": [(0.01, 0.08, 0.0), (0.02, 0.10, 0.0), (0.03, 0.09, 0.0)],
    "Trainer": [(0.05, 0.10, 0.01)] * 3,
}


@pytest.fixture
def figure():
    return owner_parts(RUNS, {"plain loop": (0, 1), "Trainer": (1, 1)})


def test_bars_are_medians_end_to_end(figure):
    (axes,) = figure.axes
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([20, 90, 0, 50, 100, 10])
    assert [text.get_text() for text in axes.texts] == ["20", "90", "50", "100"]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(RUNS)


def test_the_line_covers_what_the_clock_measured(figure):
    (axes,) = figure.axes
    ends = [list(line.get_xdata()) for line in axes.lines]
    assert ends == [pytest.approx([0, 110]), pytest.approx([50, 150])]


def test_without_runs_it_says_so():
    with pytest.raises(ValueError, match="owner_parts: an owner has no runs"):
        owner_parts({"plain loop": []})
