"""What the benchmark of pipelines measured, as a figure."""

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import plots
from plots.pace import throughput

WHERE = {"where": "2 CPU cores", "libraries": {"torch": "2.13.0"}, "when": "2026-01-02"}


def row(schedule, microbatches, threads, median):
    spread = {"median": median, "p10": median - 5.0, "p90": median + 5.0}
    return {"schedule": schedule, "microbatches": microbatches, "threads": threads} | spread


CPU = {
    "kind": "CPU",
    **WHERE,
    "rows": [
        row("unsplit", 1, "1", 100.0),
        row("unsplit", 1, "2", 180.0),
        *(row(s, m, "2 x 1", h) for s, m, h in [("gpipe", 4, 150.0), ("gpipe", 8, 140.0)]),
        *(row(s, m, "2 x 1", h) for s, m, h in [("zbv", 4, 120.0), ("zbv", 8, 130.0)]),
    ],
}


GPU = {"kind": "GPU", **WHERE | {"where": "1 x GPU"}, "rows": []}


def test_bars_have_the_medians():
    figure = throughput([GPU, CPU])
    (axes,) = figure.axes
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert [bar.get_width() for bar in bars] == [150, 120, 140, 130]
    assert [to_hex(bar.get_facecolor()) for bar in bars[::2]] == [plots.color(0), plots.color(1)]
    places = [bar.get_y() + bar.get_height() / 2 for bar in bars]
    assert [round(x) for x in places] == [0, 1, 0, 1] and places[0] < places[2]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["gpipe", "zbv"]
    lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
    assert lines == {"one process, 1 thread": 100, "one process, 2 threads": 180}
    spread = axes.collections[0].get_segments()[0][:, 0]
    assert spread.tolist() == [145, 155]


def test_without_results_it_says_so():
    assert throughput([GPU]).rows == [["CPU", "not measured yet"]]
    assert "not measured yet" in repr(throughput([]))
