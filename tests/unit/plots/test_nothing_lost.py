"""The figures of chapter 9: what stands where, in which colour, and what they refuse."""


import numpy as np
import pytest
from matplotlib.colors import same_color

from rankbook.plots.nothing_lost_batches import growing_batches
from rankbook.plots.nothing_lost_cut import batch_cut
from rankbook.plots.nothing_lost_soak import soak
from rankbook.plots.nothing_lost_worlds import FLOOR, world_losses
from rankbook.plots.style import color

ROWS = [
    {"processes": "warm", "fault": "worker_killed", "count": 20, "median": 2, "p10": 1, "p90": 4},
    {"processes": "warm", "fault": "node_joins", "count": 9, "median": 3, "p10": 2, "p90": 5},
    {"processes": "cold", "fault": "worker_killed", "count": 7, "median": 8, "p10": 6, "p90": 9},
]


def test_samples_of_a_batch_stand_in_a_row_in_the_colours_of_their_ranks():
    (axes,) = batch_cut([[[7, 8], [9], [10]], [[1, 2], [3, 4]]]).axes
    assert [text.get_text() for text in axes.texts] == ["7", "8", "9", "10", "1", "2", "3", "4"]
    found = [box.get_facecolor() for box in axes.patches]
    expected = [color(rank) for rank in (0, 0, 1, 2, 0, 0, 1, 1)]
    assert all(map(same_color, found, expected))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "step 1, 3 ranks", "step 2, 2 ranks"]  # fmt: skip
    assert axes.texts[4].get_position()[1] > axes.texts[3].get_position()[1]  # the next row


def test_an_empty_share_takes_no_place_and_keeps_its_colour():
    (axes,) = batch_cut([[[5], [], [6]]]).axes
    found = [box.get_facecolor() for box in axes.patches]
    assert all(map(same_color, found, [color(0), color(2)]))
    assert [text.get_position()[0] for text in axes.texts] == [0.5, 1.5]


@pytest.mark.parametrize("steps", [[], [[[]]], [[list(range(17))]]])
def test_a_cut_that_cannot_be_read_is_refused(steps):
    with pytest.raises(ValueError, match="steps of 1 to 16 samples"):
        batch_cut(steps)


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
    words = [text.get_text() for text in figure.legends[0].texts]
    assert words == ["never interrupted", "4 ranks", "2 ranks"]


@pytest.mark.parametrize(
    ("losses", "sizes", "control"),
    [({}, {}, {}), ({1: 1.0}, {1: 2}, {1: 1.0, 2: 1.0}), ({1: 1.0}, {}, {1: 1.0})],
)
def test_runs_that_cannot_be_compared_are_refused(losses, sizes, control):
    with pytest.raises(ValueError, match="the same steps"):
        world_losses(losses, sizes, control)


def test_trainings_are_drawn_against_samples_and_the_change_is_marked():
    curves = {"kept": [(16, 2.0), (32, 1.0)], "grown": [(16, 2.0), (144, 1.5)]}
    (axes,) = growing_batches(curves, change=16).axes
    kept, grown, change = axes.get_lines()
    assert np.allclose(kept.get_xydata(), curves["kept"])
    assert np.allclose(grown.get_xydata(), curves["grown"])
    assert set(change.get_xdata()) == {16}
    assert kept.get_linestyle() != grown.get_linestyle()  # they differ without colours, too


@pytest.mark.parametrize("curves", [{}, {"empty": []}])
def test_no_training_is_refused(curves):
    with pytest.raises(ValueError, match="nothing to draw"):
        growing_batches(curves, change=1)


def test_a_soak_has_a_line_a_fault_from_p10_to_p90():
    figure = soak({"rows": ROWS})
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "worker killed (20)", "node joins (9)"]  # fmt: skip
    spans = [tuple(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert spans == [(1, 4), (2, 5), (6, 9)]
    medians = [line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) == 1]
    assert medians == [2, 3, 8]
    assert [text.get_text() for text in figure.legends[0].texts] == [
        "warm processes", "cold processes"]  # fmt: skip


def test_a_soak_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        soak({"rows": []})
