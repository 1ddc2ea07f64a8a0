"""What holds for all of rankbook.plots: how its functions are called, and what they refuse."""

import inspect
import subprocess
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from rankbook import plots

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
        "from rankbook import plots\n"
        "assert len([getattr(plots, name) for name in dir(plots)]) > 30\n"
        "print([name for name in ('torch', 'IPython', 'ipykernel') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]", output.stdout + output.stderr
