"""What the benchmark of wrappings measured, as a figure and a table of what changed."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_rgb

import plots
from plots.pipelines import GROUND, MOST
from plots.theme import PAPER


def outcome(schedule, wrapping, verdict, *errors, count=4, missing=0, step=0, message=""):
    return SimpleNamespace(
        schedule=schedule, wrapping=wrapping, microbatches=count, verdict=verdict, errors=errors,
        missing=missing, step=step, message=message,
    )  # fmt: skip


FOUND = [
    outcome("gpipe", "fully_shard", "right", 4e-7, 1e-7),
    outcome("zbv", "fully_shard", "SILENTLY WRONG", 0.1, 0.506, missing=24),
    outcome("gpipe", "DDP", "raises", 1e-7, step=2),
    outcome("zbv", "DDP", "raises", 0.57, step=2),
    outcome("gpipe", "DDP static_graph", "SILENTLY WRONG", 0.4, 0.1),
    outcome("zbv", "DDP static_graph", "raises", step=1),
]


def shown(figure):
    """The words of all cells, which have one text a line, as those of the names of the rows."""
    return [words for place, words in blocks(figure.axes[0]) if place[0] > 0]


def blocks(axes):
    """Places and words: the lines that belong together have one place."""
    found = {}
    for text in axes.texts:
        found.setdefault(tuple(text.xy), []).append(text.get_text())
    return [(place, "\n".join(lines)) for place, lines in found.items()]


@pytest.mark.parametrize("form", [lambda o: o, vars], ids=["objects", "mappings"])
def test_wrapping_table(form):
    figure = plots.wrapping_table(form(o) for o in FOUND)
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["gpipe", "zbv"]
    names = [words for place, words in blocks(axes) if place[0] < 0]
    assert names == ["fully_shard", "DDP", "DDP\nstatic_graph"]
    assert shown(figure) == [
        "right",
        "WRONG\n51%\n24 missing",
        "raises\nin step 2",
        "57% off,\nthen raises",
        "WRONG\n40%",
        "raises\nin step 1",
    ]
    colors = [patch.get_facecolor() for patch in axes.patches]
    assert colors == [GROUND[o.verdict] for o in FOUND]


def test_a_cell_is_cut_only_where_the_number_of_microbatches_matters():
    figure = plots.wrapping_table(
        [
            outcome("dualpipev", "DDP", "cannot run", count=2),
            outcome("dualpipev", "DDP", "raises", 0.33, step=2, count=4),
            outcome("dualpipev", "DDP", "SILENTLY WRONG", 0.38, 0.1, count=8),
            outcome("1f1b", "DDP", "raises", step=2, count=2),
            outcome("1f1b", "DDP", "right", 1e-7, count=4),
            outcome("1f1b", "DDP", "right", 2e-7, count=8),
            outcome("dualpipev", "DDP static_graph", "SILENTLY WRONG", 0.45, count=2),
            outcome("dualpipev", "DDP static_graph", "SILENTLY WRONG", 0.57, count=8),
        ]
    )
    assert shown(figure) == [
        *("2: cannot run", "4: off, raises", "8: WRONG 38%", "2: raises", "4, 8: right"),
        "WRONG\n45–57%",
    ]
    heights = [round(patch.get_height(), 2) for patch in figure.axes[0].patches]
    assert heights == [0.31, 0.31, 0.31, 0.31, 0.61, 0.92]


def test_every_word_of_the_recorded_matrix_lies_in_its_box():
    (rows,) = (r["rows"] for r in plots.recorded("wrappings") if "2.13" in r["libraries"]["torch"])
    figure = plots.wrapping_table(rows)
    figure.canvas.draw()
    boxes = [(axes, box) for axes in figure.axes for box in axes.patches]
    assert len(boxes) > 49  # some cells are cut
    for axes, box in boxes:
        middle = box.get_x() + 0.48, box.get_y() + box.get_height() / 2
        texts = [text for text in axes.texts if text.xy == pytest.approx(middle)]
        assert texts
        around = box.get_window_extent()
        for words in (text.get_window_extent() for text in texts):
            assert around.x0 < words.x0 and words.x1 < around.x1, texts
            assert around.y0 < words.y0 and words.y1 < around.y1, texts
    columns = [len(axes.get_xticks()) for axes in figure.axes]
    assert columns == [MOST, 3]  # below each other, where a page is too narrow for all


def test_the_grounds_differ_in_grey():
    paper = to_rgb(PAPER)
    grey = [
        255 * sum(w * (alpha * of + (1 - alpha) * under) for w, of, under
                  in zip((0.3, 0.59, 0.11), ground, paper, strict=True))
        for *ground, alpha in GROUND.values()
    ]  # fmt: skip
    ordered = sorted(grey)
    assert all(b - a > 25 for a, b in pairwise(ordered)), grey


def result(version, *outcomes):
    return {"libraries": {"torch": version}, "rows": [vars(o) for o in outcomes]}


def test_what_changed_from_version_to_version():
    same = outcome("zbv", "DDP", "SILENTLY WRONG", 0.57, 0.5)
    nearly = outcome("zbv", "DDP", "SILENTLY WRONG", 0.572, 0.501)
    worse = outcome("zbv", "DDP", "SILENTLY WRONG", 0.57, 0.6)
    fails = outcome("zbv", "DDP", "raises", 0.57, step=2, message="RuntimeError: no")
    none = outcome("zbv", "DDP", "cannot run", message="ImportError: no DDP")
    other = outcome("gpipe", "DDP", "right", 1e-7)
    table = plots.wrapping_changes([result("2.13.0+cpu", same), result("2.9.1", nearly)])
    assert table.rows == [["the same with 2.9.1, 2.13.0"]]
    results = [result("2.13.0", fails, other), result("2.9.0", none, other), result("2.12.0", same)]
    table = plots.wrapping_changes(results)
    assert table.head[3:] == ["torch 2.9.0", "torch 2.12.0", "torch 2.13.0"]
    first, second = table.rows
    assert first == [
        *("DDP", "zbv", "4", "cannot run", "SILENTLY WRONG"),
        "raises in step 2",
    ]
    assert second == ["DDP", "gpipe", "4", "right", "not tried", "right"]
    (only,) = plots.wrapping_changes([result("2.9.0", same), result("2.10.0", worse)]).rows
    assert only[3:] == ["SILENTLY WRONG; 57%, 50%", "SILENTLY WRONG; 57%, 60%"]
    alone = outcome("zbv", "DDP", "raises", 0.57, step=2, message="ValueError: no")
    (only,) = plots.wrapping_changes([result("2.9.0", fails), result("2.10.0", alone)]).rows
    kinds = "RuntimeError", "ValueError"
    assert only[3:] == [f"raises in step 2; 57%; {kind}: no" for kind in kinds]
    assert plots.wrapping_changes([]).rows == [["not measured yet"]]


def test_trials_that_changed_alike_share_a_row():
    pairs = [(s, w) for s in ("zbv", "dualpipev") for w in ("DDP", "replicate")]
    right = [outcome(*pair, "right", 1e-7) for pair in pairs]
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:{}] Read error"
    gone = [
        outcome(*pair, "raises", step=1, message=lost.format(i)) for i, pair in enumerate(pairs)
    ]
    versions = [result("2.11.0", *gone), result("2.12.0", *right), result("2.13.0", *right)]
    table = plots.wrapping_changes(versions)
    assert table.head[3:] == ["torch 2.11.0", "torch 2.12.0 to 2.13.0"]
    (row,) = table.rows
    assert row == [
        *("DDP, replicate", "zbv, dualpipev", "4"),
        *("raises in step 1", "right"),
    ]
