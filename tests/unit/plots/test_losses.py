"""Losses stand where their samples were seen, beside what they are held against."""

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import same_color

from plots import LearningCurve, losses
from plots.losses import FLOOR, growing_batches, loss_curves, world_losses


class Handle:
    """What a notebook's display gives: notes what it is asked to show."""

    def __init__(self):
        self.shown = []

    def update(self, data, raw):
        self.shown.append(data)


@pytest.fixture
def handle(monkeypatch):
    handle = Handle()

    def display(data, raw, display_id):
        assert display_id  # without one nothing could be updated
        handle.shown.append(data)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    return handle


def test_points_appear_with_draw_in_the_same_figure(handle):
    curve = LearningCurve(20, {"unigram model": 804.4})
    (axes,) = curve.figure.axes
    (empty,) = handle.shown
    for step, perplexity in [(1, 900.0), (2, 700.0)]:
        curve.train(step, perplexity)
    curve.valid(2, 650.0)
    curve.draw()
    _, drawn = handle.shown
    assert empty.keys() == drawn.keys() == {"image/svg+xml", "text/plain"}
    assert len(drawn["image/svg+xml"]) > len(empty["image/svg+xml"])
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["training, each step"] == [[1, 900], [2, 700]]
    assert lines["validation"] == [[2, 650]]
    assert [text.get_text() for text in axes.texts] == ["unigram model: 804"]
    low, high = axes.get_ylim()
    assert low < 650 and high > 900 and axes.get_xlim() == (0, 20)


def test_the_cell_shows_it_once(handle):
    curve = LearningCurve(5, {})
    assert not losses.plt.fignum_exists(curve.figure.number)


@pytest.mark.given("small", "large")
def test_losses_are_averaged_over_as_many_samples_in_small_batches_as_in_large_ones():
    figure = loss_curves({"small": (2, [4.0, 2.0, 1.0]), "large": (4, [3.0, 1.0])}, average=4)
    (axes,) = figure.axes
    small, large = axes.get_lines()
    assert np.allclose(small.get_xydata(), [(4, 3.0), (6, 1.0)])  # the last one of what is left
    assert np.allclose(large.get_xydata(), [(4, 3.0), (8, 1.0)])
    assert [line.get_linestyle() for line in (small, large)] == ["-", "--"]


def test_losses_stand_on_those_of_the_control_and_below_how_far_they_are_off():
    control = {step: 1.0 / step for step in range(1, 6)}
    losses = control | {4: control[4] + 1e-6}
    figure = world_losses(losses, {1: 4, 2: 4, 3: 2, 4: 2, 5: 4}, control)
    above, below = figure.axes
    band, *runs = above.get_lines()
    assert np.allclose(band.get_xydata(), [*control.items()])
    assert [list(line.get_xdata()) for line in runs] == [[1, 2], [3, 4], [5]]
    assert same_color(runs[0].get_color(), runs[2].get_color())
    assert not same_color(runs[0].get_color(), runs[1].get_color())
    off = [y for line in below.get_lines()[:3] for y in line.get_ydata()]
    assert np.allclose(off, [FLOOR, FLOOR, FLOOR, 1e-6, FLOOR])
    assert [text.get_text() for text in below.texts] == ["4 ranks", "2 ranks", "4 ranks"]
    assert [text.get_position()[0] for text in below.texts] == [1, 3, 5]  # where they are


@pytest.mark.parametrize(
    ("losses", "sizes", "control"),
    [({1: 1.0}, {1: 2}, {1: 1.0, 2: 1.0}), ({1: 1.0}, {}, {1: 1.0})],
)
def test_runs_that_cannot_be_compared_are_refused(losses, sizes, control):
    with pytest.raises(ValueError, match="the same steps"):
        world_losses(losses, sizes, control)


@pytest.mark.given("kept", "grown")
def test_trainings_are_drawn_against_samples_and_the_change_is_marked():
    """A line is the median of the seeds, and a band shows all of them."""
    grown = [[(16, 2.0), (144, loss)] for loss in (1.5, 1.8, 1.2)]
    curves = {"kept": [[(16, 2.0), (32, 1.0)]], "grown": grown}
    (axes,) = growing_batches(curves, change=16).axes
    kept, median, change = axes.get_lines()
    assert np.allclose(kept.get_xydata(), curves["kept"][0])
    assert np.allclose(median.get_xydata(), [(16, 2.0), (144, 1.5)])
    (band,) = [c for c in axes.collections if isinstance(c, PolyCollection)]  # one seed needs none
    assert band.get_datalim(axes.transData).intervaly.tolist() == [1.2, 2.0]
    assert set(change.get_xdata()) == {16}
    assert kept.get_linestyle() != median.get_linestyle()  # they differ without colours, too


@pytest.mark.parametrize("curves", [{"no seed": []}, {"empty": [[]]}])
def test_no_training_is_refused(curves):
    with pytest.raises(ValueError, match="nothing to draw"):
        growing_batches(curves, change=1)
