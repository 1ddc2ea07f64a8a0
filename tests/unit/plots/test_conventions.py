"""What holds for all of plots: what figures look like, and what their functions refuse.

Every figure that some test of this folder draws is held to the rules in `drawn.py`, by the fixture
in `conftest.py`: what it shows has a translation, a size, a place on the paper. Tests of single
figures look at what is drawn, not again at names.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

import plots
from plots.theme import SETTINGS, SMALLEST, WIDTH
from tests.unit.plots.drawn import complaints

# what is nothing for each figure, and whose name the sentence begins with, if another's
NOTHING = {
    "agents_meet": ([], {}),
    "all_reduce_at_scale": ({}, {}),
    "alpha_beta": ([], [], 0.0, 0.0),
    "attention_pairs": ({},),
    "backward_traces": ({},),
    "batch_cut": ([],),
    "break_even": ({},),
    "by_step": ({}, "loss"),
    "bus_bandwidth": ([], 8, 1e9),
    "cheapest_ways": ([], []),
    "collectives": ([], []),
    "compiling_calls": ({},),
    "counts": ({},),
    "elastic_timeline": ([],),
    "expert_loads": ({}, 2),
    "growing_batches": ({}, 0),
    "idle_by_ranks": ({},),
    "ladder": ([],),
    "layout_table": ([],),
    "layout_pace": ([],),
    "layout_traffic": ({},),
    "learning_curves": ({}, {}),
    "loss_curves": ({},),
    "link_use": ({},),
    "loss_on_link": ([],),
    "lost": ({},),
    "memory_checked": ([],),
    "more_ranks": ({}, 2),
    "nodes": ([],),
    "overlap": ({},),
    "owner_parts": ({},),
    "padding": ({},),
    "padding_recovered": ({}, {}),
    "plan_checked": ([], 0.25, ""),
    "plan_memory": ({}, 1.0),
    "plan_times": ({},),
    "predictions": ([],),
    "predictions_checked": ([],),
    "queue": ([[]],),
    "race": ([],),
    "rank_memory": ([],),
    "reading_rates": ([],),
    "roofline": (SimpleNamespace(by_kind=dict), None),
    "ring_steps": ([],),
    "sample_weights": ({},),
    "save_timeline": ({},),
    "scaling": ({},),
    "schedule_step": (None, {}),
    "share_at_scale": ({}, {}),
    "shards": ({},),
    "shares": ({},),
    "soak": ({"rows": []},),
    "speed_up_steps": ([],),
    "start_at_scale": ({}, {}),
    "step_memory": ({},),
    "start_up_measured": ([],),
    "step_trace": ({},),
    "timelines": ({},),
    "token_routes": ({},),
    "world_losses": ({}, {}, {}),
    "wrapping_table": ([],),
}
BY = {"elastic_timeline": "elastic_worlds"}
DRAWN_ELSEWHERE = {"join_timeline", "timeline"}  # of one thing, which cannot be nothing


def figures() -> set[str]:
    functions = {name: getattr(plots, name) for name in dir(plots)}
    return {
        name
        for name, function in functions.items()
        if inspect.isfunction(function) and inspect.signature(function).return_annotation is Figure
    }


def test_every_figure_is_held_to_the_conventions():
    assert figures() == NOTHING.keys() | DRAWN_ELSEWHERE


def test_some_test_draws_every_figure():
    here = Path(__file__)
    files = [path for path in here.parent.glob("test_*.py") if path != here]
    calls = set(re.findall(r"\w+(?=\()", "\n".join(path.read_text("utf-8") for path in files)))
    assert not figures() - calls


@pytest.fixture
def figure():
    """One that keeps all rules; it is closed before it would be looked at again."""
    with plots.style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2), layout="constrained")
        axes.plot([1, 2], [0.1, 0.2], label="measured", color=plots.color(0))
        axes.set(xlabel="ranks", ylabel="seconds")
    yield figure
    plt.close(figure)


BROKEN = [
    (lambda f: f.set_figwidth(WIDTH + 1), "inches wide, not"),
    (lambda f: f.axes[0].set_xlabel("ranks", size=SMALLEST - 1), "a text of 9 points, below 10"),
    (lambda f: f.text(0.5, 1.1, "ranks"), "outside of the figure: 'ranks'"),
    (lambda f: f.text(0.1, 0.2, "seconds", rotation=90, va="top"), "outside of the figure: 'secon"),
    (lambda f: f.text(0.5, 0.5, "unheard-of"), "no file of book/labels translates 'unheard-of'"),
    (lambda f: f.text(0.5, 0.5, "nan"), "no word for a reader: 'nan'"),
    (lambda f: f.text(0.5, 0.5, "{} ranks"), "no word for a reader: '{} ranks'"),
    (lambda f: f.axes[0].set_xlabel(""), "no word says what the x axis counts"),
    (lambda f: f.axes[0].set_ylabel(""), "no word says what the y axis counts"),
    (lambda f: f.legend([*f.axes[0].lines] * 2, ["measured"] * 2), "does not tell its parts apart"),
    (lambda f: f.legend(f.axes[0].lines, [" "]), "does not tell its parts apart"),
    (lambda f: f.axes[0].imshow([[0, 1], [1, 0]]), "a bitmap in a small drawing"),
    (lambda f: f.text(0.5, 0.5, "ranks", color="#123456"), "#123456 is not in the palette"),
    (lambda f: f.text(0.5, 0.5, "$x$"), "words are set as a formula"),
]


@pytest.mark.parametrize(("breaks", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_what_is_against_the_rules_is_told(figure, breaks, said):
    with plots.style():
        breaks(figure)
    assert [line for line in complaints(figure) if said in line]


def test_a_figure_that_keeps_the_rules_is_left_alone(figure):
    assert [*complaints(figure)] == []
    figure.text(0.5, 0.5, "mine")
    assert [*complaints(figure, ["mine"])] == []


def test_the_smallest_word_can_be_read_on_a_phone():
    """Where a figure is shrunk to 330 pixels, it still has nine of them."""
    pixels = WIDTH * SETTINGS["figure.dpi"]
    assert SMALLEST / 72 * SETTINGS["figure.dpi"] * min(1, 330 / pixels) >= 9


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_to_draw_is_one_sentence(name):
    function = getattr(plots, name)
    with pytest.raises(ValueError, match=f"^{BY.get(name, name)}: .+") as refused:
        function(*NOTHING[name])
    assert "\n" not in str(refused.value)
    assert inspect.getdoc(function).startswith("Draw ") and "ValueError" in function.__doc__


@pytest.mark.slow
def test_plots_stand_alone():
    """No torch, no notebook: a result can be drawn anywhere."""
    code = (
        "import sys\n"
        "import plots\n"
        "assert len([getattr(plots, name) for name in dir(plots)]) > 30\n"
        "print([name for name in ('torch', 'IPython', 'ipykernel') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]", output.stdout + output.stderr
