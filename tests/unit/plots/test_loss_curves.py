"""Loss curves stand where their samples were seen."""

import numpy as np
import pytest

from rankbook.plots.loss_curves import loss_curves


def test_losses_are_averaged_over_as_many_samples_in_small_batches_as_in_large_ones():
    figure = loss_curves({"small": (2, [4.0, 2.0, 1.0]), "large": (4, [3.0, 1.0])}, average=4)
    (axes,) = figure.axes
    small, large = axes.get_lines()
    assert np.allclose(small.get_xydata(), [(4, 3.0), (6, 1.0)])  # the last one of what is left
    assert np.allclose(large.get_xydata(), [(4, 3.0), (8, 1.0)])
    assert [line.get_linestyle() for line in (small, large)] == ["-", "--"]
    assert [text.get_text() for text in figure.legends[0].texts] == ["small", "large"]


def test_a_figure_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        loss_curves({})
