"""What the benchmark of wrappings measured, as a table."""

import math
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_hex

from rankbook import plots
from rankbook.plots.pipelines import GROUND
from tests.unit.plots.drawn import texts_outside


def outcome(schedule, wrapping, verdict, error=1e-7, missing=0, step=0):
    return SimpleNamespace(
        schedule=schedule, wrapping=wrapping, verdict=verdict, error=error, missing=missing,
        step=step, message="",
    )  # fmt: skip


FOUND = [
    outcome("gpipe", "fully_shard", "right"),
    outcome("zbv", "fully_shard", "SILENTLY WRONG", 0.506, missing=24),
    outcome("gpipe", "DDP", "raises", step=2),
    outcome("zbv", "DDP", "raises", 0.57, step=2),
    outcome("gpipe", "DDP static_graph", "SILENTLY WRONG", 0.4),
    outcome("zbv", "DDP static_graph", "raises", math.nan, step=1),
]


@pytest.mark.parametrize("form", [lambda o: o, vars], ids=["objects", "mappings"])
def test_wrapping_table(form):
    figure = plots.wrapping_table(form(o) for o in FOUND)
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["gpipe", "zbv"]
    assert [t.get_text() for t in axes.get_yticklabels()] == [
        *("fully_shard", "DDP", "DDP static_graph")
    ]
    shown = {t.get_position(): t.get_text() for t in axes.texts}
    assert shown == {
        (0.5, 0.5): "right",
        (1.5, 0.5): "WRONG\n51% off\n24 missing",
        (0.5, 1.5): "raises\nin step 2",
        (1.5, 1.5): "57% off, then\nraises",
        (0.5, 2.5): "WRONG\n40% off",
        (1.5, 2.5): "raises\nin step 1",
    }
    colors = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    assert colors == [GROUND[o.verdict] for o in FOUND]
    assert texts_outside(figure) == []


def test_wrapping_table_without_outcomes():
    with pytest.raises(ValueError, match="no outcomes"):
        plots.wrapping_table([])
