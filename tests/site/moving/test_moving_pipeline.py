"""The pipeline explorer, against the simulator that runs torch's own lists."""

import random

import pytest

from rankbook.parallel.pipeline import Durations, PipelinePlan, bubble, schedule_names, simulate
from tests.site.moving.rounding import fixed

CALM = "() => document.querySelector('.moving-settings [name=microbatches]').value"


def expected(schedule: str, ranks: int, microbatches: int, ratio: float, message: float) -> dict:
    """What a reader has to see, from the simulator. Raises ValueError for what cannot run."""
    plan = PipelinePlan(schedule, ranks, microbatches)
    durations = Durations(1.0, ratio / 2, ratio / 2, communication=message)
    step = simulate(plan, durations)
    if schedule == "gpipe":
        plain = step
    else:
        plain = simulate(PipelinePlan("gpipe", ranks, microbatches), durations)
    held = [step.in_flight(rank) * ranks / plan.stages for rank in range(ranks)]
    return {
        "bubble": fixed(100 * step.idle_share, 1),
        "formula": fixed(100 * bubble(ranks, microbatches), 1),
        "step": fixed(step.span, 1),
        "gpipe": fixed(plain.span, 1),
        "most": f"{max(held):g}",
        **{f"held {rank}": f"{count:g}" for rank, count in enumerate(held)},
    }


def some_settings() -> list[dict]:
    """Every schedule on small pipelines and on large ones, with all kinds of durations."""
    dice, found = random.Random(19), []
    for schedule in schedule_names():
        for _ in range(40):
            ranks, microbatches = dice.randint(2, 16), dice.randint(1, 32)
            ratio, message = dice.randrange(2, 17) / 4, dice.randrange(0, 21) / 10
            found.append(
                {"schedule": schedule, "ranks": ranks, "microbatches": microbatches}
                | {"ratio": ratio, "message": message}
            )
    return found


def runs(settings: dict) -> bool:
    try:
        PipelinePlan(settings["schedule"], settings["ranks"], settings["microbatches"])
    except ValueError:
        return False
    return True


def test_it_shows_what_the_simulator_computes(ask):
    asked = [settings for settings in some_settings() if runs(settings)]
    assert len(asked) > 150
    for settings, shown in zip(asked, ask("pipeline", asked), strict=True):
        assert shown == expected(**settings), settings


def test_the_same_actions_in_the_same_time(bare):
    """Not only the numbers: every action of every rank, from when to when."""
    page = bare("pipeline")
    every = """(all) => all.map((settings) => Moving.state("pipeline", settings).result.actions)"""
    asked = [settings for settings in some_settings() if runs(settings)][::4]
    for settings, actions in zip(asked, page.evaluate(every, asked), strict=True):
        ratio, plan = settings["ratio"], PipelinePlan(*list(settings.values())[:3])
        durations = Durations(1.0, ratio / 2, ratio / 2, communication=settings["message"])
        step = simulate(plan, durations)
        for rank in range(plan.ranks):
            mine = [a for a in actions if a["rank"] == rank]
            names = [f"{a['stage']}{a['kind']}{a['mb']}" for a in mine]
            assert names == step.order(rank), settings
            times = [(a["start"], a["end"]) for a in mine]
            assert times == [(a.start, a.end) for a in step.computed(rank)], settings


def test_what_cannot_run_is_made_possible(bare):
    """The nearest number of microbatches that runs, for every pipeline that can be chosen."""
    page = bare("pipeline")
    fit = """(all) => all.map((settings) => Moving.state("pipeline", settings).settings)"""
    for schedule in schedule_names():
        asked = [
            {"schedule": schedule, "ranks": ranks, "microbatches": microbatches}
            for ranks in range(2, 17)
            for microbatches in range(1, 33)
        ]
        for before, after in zip(asked, page.evaluate(fit, asked), strict=True):
            same = before["microbatches"] == after["microbatches"]
            assert runs(after) and 1 <= after["microbatches"] <= 32
            assert same == runs(before) == (not after["changed"]), before


@pytest.mark.parametrize("language", ["en", "zh"])
def test_with_the_controls(bare, language):
    page = bare("pipeline", language)
    page.select_option("[name=schedule]", "dualpipev")
    assert page.evaluate(CALM) == "8"
    page.locator("[name=ranks]").focus()
    page.keyboard.press("ArrowRight")  # five ranks need ten microbatches
    assert page.evaluate(CALM) == "10"
    assert "10 " in page.inner_text(".moving-said")
    want = expected("dualpipev", 5, 10, 2.0, 0.0)
    read = page.eval_on_selector_all(
        "[data-shown]", "all => all.map(e => [e.dataset.shown, e.textContent])"
    )
    assert dict(read) == {key: want[key] for key in ("bubble", "formula", "step", "most")}
    words = page.locator(".moving-drawing svg text").all_text_contents()
    assert any(want["step"] in each for each in words)
    assert any(want["gpipe"] in each for each in words)
