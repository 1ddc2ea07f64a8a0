"""Memory and time of layouts drawn to scale, and predictions beside what was published."""

import pytest
from matplotlib.colors import to_hex

import plots
from plots.plans import HELD, SPENT
from rankbook.predict.memory.terms import Term, Terms

CARD = 80e9


def words(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.given("another")
def test_plan_memory():
    plans = {
        "dp=8": Terms(parameters=Term(20e9, "2 P"), optimizer=Term(70e9, "12 P")),
        "tp=8": {"parameters": 2e9, "activations": 30e9, "another": 8e9},
    }
    (axes,) = plots.plan_memory(plans, CARD).axes
    bars = [(bar.get_x(), bar.get_width(), to_hex(bar.get_facecolor())) for bar in axes.patches]
    colors = [to_hex(HELD[name]) for name in ("parameters", "optimizer", "activations")]
    assert bars[:2] == [(0, 20, colors[0]), (20, 70, colors[1])]
    assert bars[2:4] == [(0, 2, colors[0]), (2, 30, colors[2])] and bars[4][:2] == (32, 8)
    assert [line.get_xdata()[0] for line in axes.lines] == [80]
    assert [text.get_text() for text in axes.texts] == ["90 does not fit", "40"]


def test_what_a_plan_may_fill():
    """Between that line and the card's, a plan no longer fits."""
    (axes,) = plots.plan_memory({"dp=8": {"parameters": 75e9}}, CARD, 72e9).axes
    assert [line.get_xdata()[0] for line in axes.lines] == [80, 72]
    assert [text.get_text() for text in axes.texts] == ["75 does not fit"]
    (axes,) = plots.plan_memory({"dp=8": {"parameters": 71e9}}, CARD, 72e9).axes
    assert [text.get_text() for text in axes.texts] == ["71"]


def test_plan_times():
    plans = {
        "pp=8": {"compute": 4.0, "bubble": 3.0, "pipeline": 0.001},
        "dp=8": Terms(compute=Term(4, "F / f"), replicas=Term(0.5, "2 P beta")),
    }
    figure = plots.plan_times(plans)
    (axes,) = figure.axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 4), (4, pytest.approx(0.001)), (4.001, 3), (0, 4), (4, 0.5)]
    assert to_hex(axes.patches[0].get_facecolor()) == to_hex(SPENT["compute"])
    assert [text.get_text() for text in axes.texts] == ["7", "4.5"]
    assert words(figure) == ["compute", "replicas", "bubble"]  # a millisecond is not seen


def rows(*pairs, **more):
    return [{"source": s, "published": a, "predicted": b} | more for s, a, b in pairs]


@pytest.mark.given("one", "another")
def test_plan_checked():
    given = rows(("one", 100.0, 110.0), ("another", 400.0, 380.0)) + rows(
        ("one", 200.0, 200.0), fitted=True
    )
    (axes,) = plots.plan_checked(given, 0.25, "TFLOP/s a GPU").axes
    right, *points = axes.lines
    assert list(right.get_xdata()) == list(right.get_ydata())
    found = [
        (x, y, to_hex(line.get_markerfacecolor()) == to_hex(line.get_color()))
        for line in points
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    assert found == [(100, 110, True), (200, 200, False), (400, 380, True)]


@pytest.mark.given("one")
@pytest.mark.parametrize("most", [3, 5_000])
def test_the_axes_are_alike_and_numbered_plainly(most):
    (axes,) = plots.plan_checked(rows(("one", 2.0, 2.5), ("one", most, most)), 0.1, "GB").axes
    assert axes.get_xlim() == axes.get_ylim() and axes.get_xlim()[1] > most
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert 2 <= len(ticks) <= 12 and all(
        tick.replace(",", "").replace(".", "").isdigit() for tick in ticks
    )
