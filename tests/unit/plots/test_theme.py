"""One look for all figures, which leaves no trace."""

import matplotlib as mpl
import numpy as np
import pytest

import plots
from plots.theme import COLORS, ON_PALE, ink_on


def test_style_leaves_nothing_else_changed():
    mpl.rcParams["axes.grid"] = False
    before = dict(mpl.rcParams)
    with pytest.raises(KeyError), plots.style():
        assert mpl.rcParams["axes.spines.top"] is False
        mpl.rcParams["interactive"] = not before["interactive"]
        raise KeyError
    after = dict(mpl.rcParams)
    assert after.pop("interactive") != before.pop("interactive")
    assert after == before
    mpl.rcParams["interactive"] = not mpl.rcParams["interactive"]


def test_labels_can_be_read_on_every_colour():
    def lightness(colour):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in mpl.colors.to_rgb(colour)
        ]
        return np.dot(linear, [0.2126, 0.7152, 0.0722])

    for background in COLORS:
        ink = lightness(ink_on(background)), lightness(background)
        assert (max(ink) + 0.05) / (min(ink) + 0.05) >= 4.0, background
    assert ink_on("#ffffff") == ON_PALE
