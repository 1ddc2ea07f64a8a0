"""What meshes send and how fast they are, drawn to scale."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

import plots
from plots.mesh import DIMENSIONS
from rankbook.comm.counts import Count

ROWS = [
    {"layout": "dp=1", "shard": "none", "median": 4000, "p10": 3900, "p90": 4100},
    {"layout": "dp=4", "shard": "fsdp", "median": 3000, "p10": 2500, "p90": 3100,
     "predicted": 3600},
    {"layout": "pp=2,dp=2,tp=2", "shard": "2", "median": 1000, "p10": 900, "p90": 1200,
     "predicted": 500},
]  # fmt: skip


def test_layout_traffic():
    sent = {
        "dp=4": {"dp": Count(3, 1, 2.5 * 2**20)},
        "pp=2,tp=2": {"pp": 2**19, "tp": 2**20, "other": 6},
    }
    figure = plots.layout_traffic(sent)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(sent)
    bars = [(bar.get_x(), bar.get_width(), to_hex(bar.get_facecolor())) for bar in axes.patches]
    drawn = [bar for bar in bars if bar[1] > 0.01]
    colors = {name: to_hex(look) for name, look in DIMENSIONS.items()}
    assert drawn == [(0, 2.5, colors["dp"]), (0, 0.5, colors["pp"]), (0.5, 1, colors["tp"])]
    assert [text.get_text() for text in axes.texts] == ["2.5", "1.5"]
    assert axes.yaxis_inverted()
    (legend,) = figure.legends  # four bytes are not seen, and not named
    assert [text.get_text() for text in legend.get_texts()] == ["pp", "dp", "tp"]


@pytest.mark.parametrize(("most", "unit"), [(2**21, "MiB"), (2**12, "KiB"), (300, "bytes")])
def test_the_unit_is_that_of_the_longest_bar(most, unit):
    figure = plots.layout_traffic({"tp=2": {"tp": most}, "pp=2": {"pp": 4}})
    assert figure.axes[0].get_xlabel().startswith(unit)


def test_layout_pace():
    figure = plots.layout_pace(ROWS)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["dp=1", "dp=4 FSDP2", "pp=2,dp=2,tp=2 HSDP 2"]
    assert [bar.get_width() for bar in axes.patches] == [4000, 3000, 1000]
    spread = [list(line.get_xdata()) for line in axes.lines]
    assert spread == [[3900, 4100], [2500, 3100], [3600, 3600], [900, 1200], [500, 500]]
    assert [text.get_text() for text in axes.texts] == ["+20%", "-50%"]
    (foretold,), (unforetold,) = figure.legends, plots.layout_pace(ROWS[:1]).legends
    assert len(foretold.get_texts()) == 3 and "predicted" in map(Text.get_text, foretold.texts)
    assert "predicted" not in map(Text.get_text, unforetold.texts)


def test_a_long_bar_is_no_power_of_ten():
    (axes,) = plots.layout_traffic({"tp=2": {"tp": 5473 * 2**20}, "pp=2": {"pp": 2**10}}).axes
    assert [text.get_text() for text in axes.texts] == ["5,473", "< 0.01"]
