"""Runs, backward passes and their buckets are drawn as they are."""

from types import SimpleNamespace

import pytest
from matplotlib.colors import to_hex

import plots
from plots.ddp import COMPUTE, _lanes
from plots.theme import COLORS


def bucket(index: int, start: float, end: float, *names: str) -> SimpleNamespace:
    return SimpleNamespace(index=index, names=list(names), start=start, end=end)


def one_rank(rank: int, buckets: list, start: float = 5.0) -> SimpleNamespace:
    """Two gradients, at 2 and 6 ms; times of the buckets in ms, too."""
    buckets = [bucket(i, start + a / 1e3, start + b / 1e3, *n) for i, a, b, *n in buckets]
    times = {"late": 2, "early": 6}
    gradients = [SimpleNamespace(name=n, time=start + t / 1e3) for n, t in times.items()]
    return SimpleNamespace(
        rank=rank, start=start, end=start + 0.008, computed=start + 0.006, gradients=gradients,
        buckets=buckets, communication=0.004, hidden=0.003,
    )  # fmt: skip


def two_ranks() -> list[SimpleNamespace]:
    return [
        one_rank(0, [(0, 2, 5, "late"), (1, 6, 8, "early")]),
        one_rank(1, [(0, 2, 7, "late"), (1, 6, 8, "early")], start=5.001),
    ]


def boxes(axes) -> list[tuple]:
    """Colour, left, right of every box, in the order of drawing."""
    found = []
    for collection in axes.collections:
        for path in collection.get_paths():
            if len(path.vertices) > 2:
                (left, _), (right, _) = path.vertices.min(axis=0), path.vertices.max(axis=0)
                colour = to_hex(collection.get_facecolor()[0])
                found.append((colour, round(left, 3), round(right, 3)))
    return found


def test_overlap():
    (axes,) = plots.overlap({"1 MiB": two_ranks()}).axes
    assert axes.get_title("left") == "1 MiB: 75% of all_reduce hidden"
    assert axes.get_xlim() == (0, pytest.approx(9 * 1.005))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    assert boxes(axes) == [
        (COMPUTE, 0, 6), (COLORS[0], 2, 5), (COLORS[1], 6, 8),
        (COMPUTE, 1, 7), (COLORS[0], 3, 8), (COLORS[1], 7, 9),
    ]  # fmt: skip
    assert [text.get_text() for text in axes.texts] == ["0", "1", "0", "1"]


def test_gradients_have_the_colour_of_their_bucket():
    figure = plots.overlap({"1 MiB": two_ranks()[:1]})
    lines = [c for c in figure.axes[0].collections if c.get_linestyle() and len(c.get_paths()) == 1]
    marks = {
        round(c.get_paths()[0].vertices[0, 0], 3): to_hex(c.get_edgecolor()[0])
        for c in lines
        if len(c.get_paths()[0].vertices) == 2
    }
    assert marks == {2.0: COLORS[0], 6.0: COLORS[1]}


def test_buckets_on_their_way_at_once_have_lanes_of_their_own():
    times = [(0, 4), (1, 3), (3, 5), (4, 6), (4.5, 7)]
    assert _lanes([bucket(i, *t) for i, t in enumerate(times)]) == [0, 1, 1, 0, 2]


def test_without_a_pass():
    with pytest.raises(ValueError, match="no backward pass to draw"):
        plots.overlap({"1 MiB": []})


def test_by_step():
    curves = {"one process": [3.0, 2.0, 1.0], "alone": [3.0, 2.5], "right": [3.0, 2.0, 1.0]}
    (axes,) = plots.by_step(curves, "loss", control="one process").axes
    assert (axes.get_xlim(), axes.get_yscale()) == ((1, 3), "linear")
    drawn = {line.get_label(): line for line in axes.lines}
    assert {name: list(line.get_ydata()) for name, line in drawn.items()} == curves
    assert list(drawn["alone"].get_xdata()) == [1, 2]
    # the others have the colours that they would have without the control
    assert [drawn[name].get_color() for name in ("alone", "right")] == list(COLORS[:2])
    assert drawn["one process"].get_zorder() < drawn["right"].get_zorder()
    assert drawn["one process"].get_linewidth() > drawn["right"].get_linewidth()


@pytest.mark.given("off")
def test_by_step_on_a_logarithmic_axis():
    figure = plots.by_step({"float64": [0.0, 1e-16], "alone": [0.1, 0.1]}, "off", logarithmic=True)
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[0].yaxis.get_major_formatter()(1e-16, 0) == "10⁻¹⁶"


@pytest.mark.parametrize(
    ("curves", "control", "message"),
    [
        ({"one": []}, None, "nothing to draw"),
        ({"one": [1.0]}, "two", "no run is called 'two'; there is one"),
    ],
)
def test_by_step_refuses(curves, control, message):
    with pytest.raises(ValueError, match=f"by_step: .*{message}"):
        plots.by_step(curves, "loss", control)
