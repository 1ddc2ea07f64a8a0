"""Memory and scaling of strategies are drawn as measured."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import plots

MIB = 2**20


def texts(axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts if text.get_text()]


def bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.given("other")
def test_memory_of_a_rank_is_stacked():
    measured = SimpleNamespace(parameters=4 * MIB, gradients=4 * MIB, state=8 * MIB, buffers=MIB)
    formula = {"parameters": 4 * MIB, "gradients": 4 * MIB, "state": 8 * MIB}
    rows = [
        {"strategy": "ddp", "measured": measured, "formula": formula},
        {"strategy": "other", "measured": {"parameters": 2 * MIB}, "formula": None},
    ]
    (axes,) = plots.rank_memory(rows).axes
    assert [bar.get_width() for bar in bars(axes)] == [4, 4, 8, 1, 4, 4, 8, 2]
    assert [bar.get_x() for bar in bars(axes)] == [0, 4, 8, 16, 0, 4, 8, 0]
    assert texts(axes) == ["17.0", "2.0"]


@pytest.mark.given("original")
def test_scaling_says_the_efficiency():
    runs = {"original": {1: 1 / 8.25, 4: 1 / 3.07}, "ddp": {"1": 10, "2": 18}}
    (axes,) = plots.scaling(runs).axes
    assert texts(axes) == ["90%", "67%", "ddp", "original", "ideal"]
    ideal, original, ddp = axes.lines
    assert list(ideal.get_ydata()) == [1, 2, 4]
    assert original.get_ydata()[-1] == pytest.approx(8.25 / 3.07)
    assert list(ddp.get_xdata()) == [1, 2]


def test_efficiencies_do_not_cover_each_other():
    (axes,) = plots.scaling({name: {1: 1, 2: 1.8} for name in "abc"}).axes
    heights = [text.xy[1] for text in axes.texts if text.get_text().endswith("%")]
    assert len(heights) == 3 and min(np.diff(heights)) > 0.05
