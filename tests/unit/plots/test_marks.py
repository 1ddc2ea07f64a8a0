"""What figures are made of: round boxes, names at the ends of lines."""

import matplotlib.pyplot as plt
import pytest

from plots.marks import RADIUS, name_ends, rounded, spread
from plots.theme import color


def test_corners_are_as_round_along_both_axes():
    _, axes = plt.subplots()
    wide, narrow = rounded(axes, [(0, 0, 40, 1), (50, 0, 1, 1)], (20, 2)).get_paths()
    for path, width, left in ((wide, 40, 0), (narrow, 1, 50)):
        (x0, y0), (x1, y1) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        assert (x0, y0, x1, y1) == (left, 0, left + width, 1)
    assert wide.vertices[2].tolist() == [RADIUS * 20, 0]
    assert wide.vertices[0].tolist() == [0, RADIUS * 2]
    assert len(narrow.vertices) == 5  # no room for corners


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([10, 50, 90], [10, 50, 90]),
        ([50, 50, 50], [40, 50, 60]),
        ([0, 2, 90], [5, 15, 90]),
        ([98, 99], [85, 95]),
        ([50, 50], [45, 55]),
    ],
)
def test_names_move_only_as_far_as_they_must(places, found):
    assert spread(places, 10, 100) == pytest.approx(found)


def test_names_stand_at_the_ends_of_their_lines():
    figure, axes = plt.subplots(layout="constrained")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    name_ends(axes, [(0.5, "upper", color(0)), (0.5, "lower", color(1)), (0.1, "low", color(2))])
    figure.draw_without_rendering()
    heights = {text.get_text(): text.get_window_extent().y0 for text in axes.texts}
    assert heights["low"] < heights["upper"] != heights["lower"]
    assert all(text.get_window_extent().x0 > axes.bbox.x1 for text in axes.texts)
    assert axes.get_xlim() == (0, 1)
