"""What goes over a slow link, and the loss that it buys, drawn to scale."""

import matplotlib.pyplot as plt
import pytest

import plots


def test_link_use():
    used = {"every step": [2048] * 4, "DiLoCo": [0, 2048, 0, 2048]}
    figure = plots.link_use(used)
    for axes, each in zip(figure.axes, used.values(), strict=True):
        assert [bar.get_height() for bar in axes.patches] == [n / 1024 for n in each]
        assert axes.get_ylim() == figure.axes[0].get_ylim()  # one scale
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == [
        "every step, KiB in each step: 8 in all",
        "DiLoCo, KiB in each step: 4 in all",
    ]


WAYS = (
    *("DDP", "8 bits", "top-k 1 %", "top-k 1 %, no feedback", "LocalSGD 20", "DiLoCo 20"),
    *("DiLoCo 100", "DiLoCo 20, 4 fragments", "DiLoCo 20, 4 fragments, overlap 4"),
)


def test_loss_on_link():
    rows = [
        {"way": way, "loss": [5.0, 4.0, 3.5 + i / 10], "sent": [0, 1e6, 2e6 * (i + 1)],
         "seconds": [0.0, 1.5, 3.0]}
        for i, way in enumerate(WAYS)
    ]  # fmt: skip
    figure = plots.loss_on_link(rows)
    by_bytes, by_seconds = figure.axes
    assert by_bytes.get_xscale() == by_seconds.get_xscale() == "log"
    for i, row in enumerate(rows):  # the point at which nothing was sent is not on a log axis
        assert list(by_bytes.lines[i].get_xdata()) == [1, 2 * (i + 1)]
        assert list(by_bytes.lines[i].get_ydata()) == row["loss"][1:]
        assert list(by_seconds.lines[i].get_xdata()) == [1.5, 3.0]
    looks = {(line.get_color(), line.get_linestyle()) for line in by_bytes.lines}
    assert len(looks) == len(rows)  # each way is known by its look


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="argument 2"):
        plots.loss_on_link([{"way": "a", "loss": [1.0], "sent": [1, 2], "seconds": [1.0]}])
    plt.close("all")  # one that was begun
