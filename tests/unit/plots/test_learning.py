"""The learning curve redraws one figure in place."""

import pytest

from rankbook.plots import learning


class Handle:
    """What a notebook's display gives: notes what it is asked to show."""

    def __init__(self):
        self.shown = []

    def update(self, figure):
        self.shown.append(figure)


@pytest.fixture
def handle(monkeypatch):
    handle = Handle()

    def display(figure, display_id):
        assert display_id  # without one nothing could be updated
        handle.shown.append(figure)
        return handle

    monkeypatch.setattr(learning, "display", display)
    return handle


def test_points_appear_with_draw_in_the_same_figure(handle):
    curve = learning.LearningCurve(20, {"unigram model": 804.4})
    (axes,) = curve.figure.axes
    assert handle.shown == [curve.figure]
    for step, perplexity in [(1, 900.0), (2, 700.0)]:
        curve.train(step, perplexity)
    curve.valid(2, 650.0)
    curve.draw()
    assert handle.shown == [curve.figure] * 2
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["training, each step"] == [[1, 900], [2, 700]]
    assert lines["validation"] == [[2, 650]]
    assert [text.get_text() for text in axes.texts] == ["unigram model: 804"]
    low, high = axes.get_ylim()
    assert low < 650 and high > 900 and axes.get_xlim() == (0, 20)


def test_the_cell_shows_it_once(handle):
    curve = learning.LearningCurve(5, {})
    assert not learning.plt.fignum_exists(curve.figure.number)
