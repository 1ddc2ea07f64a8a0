"""The ladder, and the lines that break even, show what they were given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import plots
from plots.speed import break_even_steps


def row(name, seconds=None, switch=None, side=False, base=None, **more):
    found = {"name": name, "base": base, "side": side, "switch": switch or {}}
    if seconds:
        spread = {"median": seconds, "p10": seconds * 0.9, "p90": seconds * 1.2}
        found |= {"samples": 96, "seconds": spread, "samples_per_s": 96 / seconds}
        found |= {"speed_up": 4.0 / seconds, "peak_share": 0.25, "peak_bytes": 3 * 2**29}
        found |= {"times": {"median": 4.0 / seconds, "p10": 3.0 / seconds, "p90": 5.0 / seconds}}
    return found | more


LADDER = [
    row("plain", 4.0),
    row("sdpa", 1.0, {"attention": ["eager", "sdpa"]}, base="plain", compile_s=31.0),
    row("bf16", 8.0, {"precision": ["float32", "bf16"]}, side=True, base="sdpa"),
    row("tf32", switch={"precision": ["float32", "tf32"]}, base="sdpa", skipped="this is a CPU"),
    row("64x batch", switch={"batch_times": [16, 64]}, base="sdpa", error="64x batch: no memory"),
]


def texts(axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts if text.get_text()]


def bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.given("skipped: this is a CPU", "failed: no memory", "2 cores", "bf16")
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


def test_a_ladder_in_which_nothing_ran_is_refused():
    with pytest.raises(ValueError, match="no row has run"):
        plots.ladder(LADDER[3:])


def test_the_ladders_table_names_machines_and_what_is_missing():
    result = {"kind": "CPU", "where": "2 CPU cores", "libraries": {"torch": "2.13"}}
    result |= {"when": "2026-01-02", "ladder": LADDER}
    table = plots.ladder_table([result, {"kind": "CPU", "rows": []}])
    assert table.rows[0][0] == "2 CPU cores, torch 2.13, 2026-01-02, load not recorded"
    assert table.rows[2] == ["sdpa", "96", "4.00 (3.00 to 5.00)", "31 s", "25.0%", "1.5 GiB", ""]
    assert table.rows[3][-1] == "side"
    assert table.rows[4][-1] == "skipped: this is a CPU"
    assert table.rows[-1] == ["GPU", "", "", "", "", "", "not measured yet"]
    assert repr(plots.ladder_table([])).count("not measured yet") == 2
    assert "not measured" not in repr(plots.ladder_table([result, result | {"kind": "GPU"}]))


@pytest.mark.parametrize(
    ("first", "other", "steps"),
    [((0, 0.3), (10, 0.1), 50), ((0, 0.3), (10, 0.3), None), ((0, 0.3), (10, 0.4), None),
     ((5, 0.3), (2, 0.2), 0), ((0, 0.3), (0, 0.3), 0)],
)  # fmt: skip
def test_break_even_steps(first, other, steps):
    assert break_even_steps(first, other) == (None if steps is None else pytest.approx(steps))


@pytest.mark.given("slow: 5.0 s, then 400 ms a step; never even")
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
