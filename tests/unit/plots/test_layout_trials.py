"""The matrix of ways and layouts, as a figure."""

import plots
from plots.pipelines import GROUND
from rankbook.parallel.trials import LAYOUT_VARIANTS


def outcome(layout, way, verdict, errors=(), norms=(), step=0):
    names = "layout", "way", "verdict", "errors", "norms", "step", "message"
    return dict(zip(names, (layout, way, verdict, errors, norms, step, ""), strict=True))


FOUND = [
    outcome("dp=8", "all_reduce", "right", (2e-7,), (1e-7,)),
    outcome("pp=2,tp=4", "all_reduce", "cannot run"),
    outcome("dp=8", "sum of pieces, FSDP2", "raises", (2e-7,), (1e-7,), step=2),
    outcome("pp=2,tp=4", "sum of pieces, FSDP2", "SILENTLY WRONG", (2e-7, 0.1), (0.25, 0.2)),
]


def test_a_cell_says_what_came_out():
    figure = plots.layout_table(FOUND)
    texts = [text.get_text() for text in figure.axes[0].texts]
    heads, names = ["dp 8", "pp 2", "tp 4"], ["all_reduce", "sum of pieces,", "FSDP2"]
    assert texts == [*heads, *names, "right", "–", "raises", "step 2", "WRONG", "25%"]
    colors = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert colors == [GROUND[o["verdict"]] for o in FOUND]


def test_every_way_fits_on_six_layouts():
    layouts = "dp=8", "tp=8", "dp=4,tp=2", "pp=4,dp=2", "pp=2,tp=4", "pp=2,dp=2,tp=2"
    rows = [
        outcome(layout, way, "right", (0.0,), (0.0,))
        for way in LAYOUT_VARIANTS
        for layout in layouts
    ]
    (axes,) = plots.layout_table(rows).axes  # none of its words lies outside, see conftest.py
    assert len(axes.patches) == len(rows)
