"""What more ranks bring, and who reads for whom, is drawn as recorded."""

import numpy as np
import pytest

import plots

MIB = 2**20
WAYS = "rank 0 reads for all", "each rank reads its own"


def rate(kind: str, ranks: int, rate: float) -> dict:
    return {"kind": kind, "ranks": ranks, "rate": rate}


def kept(way: str, ranks: int, state: float) -> dict:
    sizes = {"parameters": MIB, "gradients": MIB, "state": state * MIB, "buckets": MIB}
    return {"way": way, "ranks": ranks, "process": 9 * MIB} | sizes


PICTURE = {
    "rates": [rate(k, n, r) for k, n, r in [("weak", 1, 100), ("weak", 2, 150), ("weak", 4, 140),
                                            ("strong", 1, 100), ("strong", 4, 60)]],
    "hidden": [{"kind": "weak", "ranks": 2, "median": 0.5, "p10": 0.4, "p90": 0.75}],
    "memory": [kept("DDP", 1, 2), kept("DDP", 4, 2), kept("FSDP", 2, 1), kept("FSDP", 4, 0.5)],
}  # fmt: skip


def test_three_panels_over_the_ranks():
    figure = plots.more_ranks(PICTURE, 2, "2 ranks")
    rates, hidden, memory = figure.axes
    weak, strong, ideal, cores = rates.lines
    assert list(weak.get_ydata()) == [100, 150, 140]
    assert list(strong.get_xdata()) == [0, 2]
    assert list(ideal.get_ydata()) == [100, 200, 400]
    assert list(cores.get_xdata()) == [1, 1], "at 2 ranks"
    assert hidden.containers[0].lines[0].get_ydata() == [50]
    assert [bar.get_height() for bar in memory.patches] == [1, 1, 1, 2] * 2
    (fsdp,) = memory.lines
    assert list(fsdp.get_ydata()) == [4, 3.5] and list(fsdp.get_xdata()) == [1, 2]
    words = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert words[0] == ["strong", "weak", "ideal"], "from the lowest to the highest"
    assert words[2] == ["FSDP", "parameters", "gradients", "buckets", "optimizer state"]


def test_no_line_of_the_devices_where_there_are_enough():
    (rates, *_) = plots.more_ranks(PICTURE, 4).axes
    assert len(rates.lines) == 3


def test_the_rates_alone():
    rates, hidden, memory = plots.more_ranks({"rates": PICTURE["rates"]}, 2).axes
    assert rates.lines and not hidden.containers and not memory.patches


def test_bars_of_two_ways_of_reading():
    def row(ranks, workers, way, median):
        spread = {"p10": median - 1, "p90": median + 2, "unit": "1000 lines/s"}
        return {"ranks": ranks, "workers": workers, "way": way, "median": median} | spread

    rows = [row(n, w, way, 10 * n + w) for n in (1, 2) for w in (0, 2) for way in WAYS]
    figure = plots.reading_rates(rows)
    one, two = figure.axes
    assert [bar.get_height() for bar in two.patches] == [20, 20, 22, 22]
    centres = [bar.get_x() + bar.get_width() / 2 for bar in one.patches]
    assert centres == pytest.approx([-0.2, 0.2, 0.8, 1.2])
    assert one.get_title("left") == "1 rank" and one.get_ylabel() == rows[0]["unit"]
    low, high = two.containers[0].lines[2][0].get_segments()[0][:, 1]
    assert np.allclose([low, high], [19, 22])
