"""Figures are drawn without a screen, looked at, and closed after each test."""

import matplotlib
import matplotlib.pyplot as plt
import pytest

from tests.unit.plots.drawn import complaints

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def looked_at_figures(request):
    """Every figure of the book that a test draws is held to the rules of all (`complaints`).

    What a test marks with ``given("a name", ...)`` are names of its own, which nobody translates.
    """
    yield
    figures = [plt.figure(number) for number in plt.get_fignums()]
    marks = [mark.args for mark in request.node.iter_markers("given")]
    given = {name for names in marks for name in names}
    found = [line for figure in figures for line in complaints(figure, given)]
    plt.close("all")
    assert not found, "\n".join(dict.fromkeys(found))
