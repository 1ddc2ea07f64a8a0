"""The figures of the chapters on speed show what they were given."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from rankbook import plots
from rankbook.plots.break_even import crossing
from rankbook.plots.padding import recovered
from rankbook.speed.batches import WAYS, make_batch
from rankbook.speed.reviews import made_up
from rankbook.speed.sizes import size


def row(name, seconds=None, switch=None, side=False, base=None, **more):
    found = {"name": name, "base": base, "side": side, "switch": switch or {}}
    if seconds:
        spread = {"median": seconds, "p10": seconds * 0.9, "p90": seconds * 1.2}
        found |= {"samples": 96, "seconds": spread, "samples_per_s": 96 / seconds}
        found |= {"speed_up": 4.0 / seconds, "peak_share": 0.25, "peak_bytes": 3 * 2**29}
    return found | more


LADDER = [
    row("plain", 4.0),
    row("sdpa", 1.0, {"attention": ["eager", "sdpa"]}, base="plain"),
    row("bf16", 8.0, {"precision": ["float32", "bf16"]}, side=True, base="sdpa"),
    row("tf32", switch={"precision": ["float32", "tf32"]}, base="sdpa", skipped="this is a CPU"),
    row("64x batch", switch={"batch_times": [16, 64]}, base="sdpa", error="64x batch: no memory"),
]


def texts(axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts if text.get_text()]


def bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_the_ladder_has_a_bar_for_each_row_that_ran():
    figure = plots.ladder(LADDER, "2 cores")
    (axes,) = figure.axes
    assert [bar.get_width() for bar in bars(axes)] == [1.0, 4.0, 0.5]
    assert [to_hex(b.get_facecolor()) for b in bars(axes)] == [plots.color(i) for i in (0, 0, 2)]
    spreads = [s[:, 0] for lines in axes.collections for s in lines.get_segments()]
    assert np.allclose(spreads[1], [4 / 1.2, 4 / 0.9])
    shown = texts(axes)
    for words in (
        "4.00x, 96 samples/s, 25% of peak",
        "attention: eager → sdpa",
        "precision: float32 → bf16 (on sdpa)",
        "skipped: this is a CPU",
        "failed: no memory",
        "times the batch: 16 → 64",
    ):
        assert words in shown
    assert axes.get_xlabel() == "times the samples per second of the row 'plain'"
    assert figure.savefig(io.BytesIO()) is None


def test_a_ladder_in_which_nothing_ran_is_refused():
    with pytest.raises(ValueError, match="no row has run"):
        plots.ladder(LADDER[3:])


def test_the_ladders_table_names_machines_and_what_is_missing():
    result = {"kind": "CPU", "where": "2 CPU cores", "libraries": {"torch": "2.13"}}
    result |= {"when": "2026-01-02", "ladder": LADDER}
    table = plots.ladder_table([result, {"kind": "CPU", "rows": []}])
    assert table.head == ["row", "samples/s", "times", "of peak", "memory", "note"]
    assert table.rows[0][0] == "2 CPU cores, torch 2.13, 2026-01-02"
    assert table.rows[2] == ["sdpa", "96", "4.00", "25%", "1.5 GiB", ""]
    assert table.rows[3][-1] == "side"
    assert table.rows[4][-1] == "skipped: this is a CPU"
    assert table.rows[-1] == ["GPU", "", "", "", "", "not measured yet"]
    assert repr(plots.ladder_table([])).count("not measured yet") == 2
    assert "not measured" not in repr(plots.ladder_table([result, result | {"kind": "GPU"}]))


def test_padding_is_drawn_to_scale():
    batches = [([3, 1], 4), ([4, 2], 4)]
    figure = plots.padding({"all": batches, "packed": [([3, 1], 0), ([4, 2], 0)]})
    padded, packed = figure.axes
    assert [bar.get_width() for bar in bars(padded)] == [4, 4, 3, 1, 4, 4, 4, 2]
    # 3 + 1 fill a line of four; 4 fill one, 2 stand on the next
    assert [(bar.get_x(), bar.get_width()) for bar in bars(packed)] == [
        (0, 3),
        (3, 1),
        (0, 4),
        (0, 2),
    ]
    assert padded.get_title() == "all\n38% padding"
    assert packed.get_title() == "packed\n0% padding"


def test_padding_draws_the_batches_of_the_book():
    small = size("cpu", vocab_size=50, max_length=64)
    reviews = made_up(8, small)
    figure = plots.padding({way: [make_batch(reviews, list(range(8)), way)] for way in WAYS})
    real = [sum(b.get_width() for b in bars(a) if to_hex(b.get_facecolor()) != "#f4cd95")
            for a in figure.axes]  # fmt: skip
    assert real == [len(reviews.ids)] * 4


def test_a_text_that_does_not_end_with_its_line():
    (axes,) = plots.padding(
        {
            "packed": [([5, 4], 0)],
        }
    ).axes
    assert [(bar.get_x(), bar.get_width()) for bar in bars(axes)] == [(0, 5), (0, 4)]
    (axes,) = plots.padding({"packed": [([3, 4, 5], 0)]}).axes
    assert [(b.get_x(), b.get_width()) for b in bars(axes)] == [
        (0, 3),
        (3, 2),
        (0, 2),
        (2, 3),
        (0, 2),
    ]


SECONDS = {
    "longest of all": {"median": 2.0, "p10": 1.9, "p90": 2.2},
    "bucketed": {"median": 1.1, "p10": 1.0, "p90": 1.2},
    "packed": {"median": 1.0, "p10": 1.0, "p90": 1.0},
}
ARITHMETIC = {"longest of all": 2.0, "bucketed": 1.05, "packed": 1.0}


def test_what_is_recovered_of_the_padding():
    assert recovered(SECONDS, ARITHMETIC) == pytest.approx(
        {"longest of all": 0, "bucketed": 0.9, "packed": 1}
    )
    (axes,) = plots.padding_recovered(SECONDS, ARITHMETIC).axes
    assert [bar.get_width() for bar in bars(axes)] == pytest.approx([1, 2 / 1.1, 2])
    assert "90% of the padding's cost recovered" in texts(axes)
    limits = [
        s[0, 0] for lines in axes.collections for s in lines.get_segments() if s[0, 0] == s[1, 0]
    ]
    assert limits[:2] == pytest.approx([1, 2 / 1.05])
    assert axes.lines[0].get_xdata()[0] == 2


@pytest.mark.parametrize(
    ("first", "other", "steps"),
    [((0, 0.3), (10, 0.1), 50), ((0, 0.3), (10, 0.3), None), ((0, 0.3), (10, 0.4), None),
     ((5, 0.3), (2, 0.2), 0), ((0, 0.3), (0, 0.3), 0)],
)  # fmt: skip
def test_crossing(first, other, steps):
    assert crossing(first, other) == (None if steps is None else pytest.approx(steps))


def test_break_even_marks_where_the_wait_is_made_up_for():
    figure = plots.break_even({"eager": (0, 0.375), "compiled": (10, 0.125), "slow": (5, 0.4)})
    (axes,) = figure.axes
    (dot,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == pytest.approx((40, 15))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "eager: 375 ms a step",
        "compiled: 10.0 s, then 125 ms a step; even after 40 steps",
        "slow: 5.0 s, then 400 ms a step; never even",
    ]


def test_lines_that_never_cross_are_drawn_all_the_same():
    (axes,) = plots.break_even({"eager": (0, 0.3), "compiled": (30, 0.4)}).axes
    assert axes.get_xlim() == (0, 100)


MIB = 2**20


def test_memory_of_a_rank_is_stacked():
    measured = SimpleNamespace(parameters=4 * MIB, gradients=4 * MIB, state=8 * MIB, buffers=MIB)
    formula = {"parameters": 4 * MIB, "gradients": 4 * MIB, "state": 8 * MIB}
    rows = [
        {"strategy": "ddp", "measured": measured, "formula": formula},
        {"strategy": "other", "measured": {"parameters": 2 * MIB}, "formula": None},
    ]
    figure = plots.rank_memory(rows)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in bars(axes)] == [4, 4, 8, 1, 4, 4, 8, 2]
    assert [bar.get_x() for bar in bars(axes)] == [0, 4, 8, 16, 0, 4, 8, 0]
    assert texts(axes) == ["17.0", "2.0"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["parameters", "gradients", "optimizer state", "buffers", "by the formula"]


def test_scaling_says_the_efficiency():
    figure = plots.scaling({"original": {1: 1 / 8.25, 4: 1 / 3.07}, "ddp": {"1": 10, "2": 18}})
    (axes,) = figure.axes
    assert texts(axes) == ["90%", "67%"]
    ideal, original, ddp = axes.lines
    assert list(ideal.get_ydata()) == [1, 2, 4]
    assert original.get_ydata()[-1] == pytest.approx(8.25 / 3.07)
    assert list(ddp.get_xdata()) == [1, 2]


def test_efficiencies_do_not_cover_each_other():
    (axes,) = plots.scaling({name: {1: 1, 2: 1.8} for name in "abc"}).axes
    heights = [text.xy[1] for text in axes.texts]
    assert len(heights) == 3 and min(np.diff(heights)) > 0.05


def test_a_diff_of_two_loops():
    before = "def a(x):\n    y = x < 1\n    return y\n"
    after = "    def a(x):\n        y = f(x) < 1\n        return y\n"
    found = plots.loop_diff(before, after)
    assert (found.removed, found.added) == (["y = x < 1"], ["y = f(x) < 1"])
    assert repr(found) == "  def a(x):\n-     y = x < 1\n+     y = f(x) < 1\n      return y"
    shown = found._repr_html_()
    assert "lines: 1 out, 1 in, 2 the same" in shown and "y = f(x) &lt; 1" in shown
    assert shown.count("<tr>") == 4


def test_a_diff_of_functions_is_that_of_their_sources():
    found = plots.loop_diff(crossing, recovered)
    assert any("def crossing(" in line for line in found.removed)
    assert any("def recovered(" in line for line in found.added)
    assert plots.loop_diff(crossing, crossing).added == []


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: plots.padding({"all": []}), "there is no batch to draw"),
        (lambda: plots.padding_recovered({}, {}), "there is no way of batching"),
        (lambda: recovered(SECONDS, dict.fromkeys(SECONDS, 1.0)), "'longest of all' pads nothing"),
        (lambda: plots.break_even({"eager": (0, 1)}), "one line crosses nothing"),
        (lambda: plots.rank_memory([]), "no rows"),
        (lambda: plots.scaling({}), "there is nothing to draw"),
        (lambda: plots.scaling({"ddp": {1: 1}}), "ddp has 1 point; a line needs two"),
    ],
)
def test_nothing_to_draw_is_one_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw()
