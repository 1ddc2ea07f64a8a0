"""The played run of page 41, against what the plots' functions read from its record."""

import json

from bookext.moving_data.elastic import RECORD, data

from plots.events import ENDED, elastic_gaps, elastic_table, elastic_worlds
from tests.site.moving.rounding import fixed

STORY = json.loads(RECORD.read_text("utf-8"))
WORLDS, GAPS = elastic_worlds(STORY["events"]), elastic_gaps(STORY["events"])
STEPS = [(*step, world.size) for world in WORLDS for step in world.steps]
ALL = """() => Array.from({length: Moving.state("elastic").count},
    (_, frame) => Moving.shown("elastic", {frame}))"""


def expected(frame: int) -> dict[str, str]:
    """What a reader has to see at a tenth of a second, from the record."""
    now = frame / 10
    done = [step for step in STEPS if step[0] <= now]
    within = [gap for gap in GAPS if gap.start < now < gap.end]
    struck = [time for time, _, _ in STORY["faults"] if time <= now]
    shown = dict.fromkeys(("world", "step", "loss", "next", "still", "redone"), "–")
    shown["time"] = fixed(now, 1)
    if done:
        _, step, loss, size = done[-1]
        shown |= {"step": str(step), "loss": fixed(loss, 3), "world": str(size)}
    if within:
        shown["world"] = f"{within[0].before} → {within[0].after}"
    if struck:
        gap = next(gap for gap in GAPS if gap.end > struck[-1])
        shown |= {"next": fixed(gap.end - struck[-1], 1), "redone": str(gap.redone)}
        shown["still"] = fixed(gap.seconds, 1)
    begun = {i: min(now, gap.end) - gap.start for i, gap in enumerate(GAPS) if gap.start < now}
    return shown | {f"gap {i}": fixed(seconds, 1) for i, seconds in begun.items()}


def test_every_moment_shows_what_the_record_says(bare):
    moments = bare("elastic").evaluate(ALL)
    assert len(moments) > 300
    for frame, shown in enumerate(moments):
        assert shown == expected(frame), frame


def test_the_costs_are_those_of_the_chapters_table(ask):
    """The same numbers as in `elastic_table`, which says only once what two faults share.

    Of the fault that ended the job it has none: what follows is the cost of the new start.
    """
    rows = elastic_table(STORY["events"], STORY["faults"]).rows
    frames = [{"frame": int(time * 10) + 1} for time, _, _ in STORY["faults"]]
    assert [row[0] for row in rows if row[2] == ENDED] == ["6"]
    for row, shown in zip(rows, ask("elastic", frames), strict=True):
        if row[2] == ENDED:
            continue
        assert row[3] == shown["next"], row
        assert row[4] in ("", shown["still"]) and row[5] in ("", shown["redone"]), row


def test_a_fault_is_chosen_and_followed(bare):
    page = bare("elastic", "zh", viewport={"width": 360, "height": 740}, has_touch=True)
    buttons = page.locator(".moving-marks button")
    assert buttons.count() == len(STORY["faults"])
    for number in range(buttons.count()):
        buttons.nth(number).tap()
        assert buttons.nth(number).get_attribute("aria-current") == "true"
        frame = page.evaluate("Moving.chosen('elastic').frame")
        read = page.eval_on_selector_all(
            "[data-shown]", "all => all.map((e) => [e.dataset.shown, e.textContent])"
        )
        assert dict(read).items() <= expected(frame).items()
    page.locator(".moving-marks button").nth(1).tap()
    before = page.inner_text(".moving-said")
    page.locator(".moving-on").tap()  # to the first step after the gap
    assert page.inner_text(".moving-said") != before
    assert expected(page.evaluate("Moving.chosen('elastic').frame"))["step"] == "16"


def test_the_dots_lie_on_the_line():
    """The last sentence: no loss differs from the uninterrupted run's more than rounding does."""
    control = data()["control"]
    assert max(abs(loss - control[step - 1]) for _, step, loss, _ in STEPS) < 1e-5


def test_what_the_sentences_claim(bare):
    """Who saved, and what was lost: as the record has it."""
    redone = [gap.redone for gap in GAPS]
    assert redone == [0, 1, 0, 0, 1, 4]
    assert [gap.after for gap in GAPS] == [4, 4, 2, 6, 4, 2]
    assert GAPS[2].seconds > 5 and GAPS[4].seconds > 5  # the keep-alive
    page = bare("elastic")
    page.locator(".moving-player input").fill("304")
    assert page.inner_text(".moving-said").startswith(f"Step {STORY['steps']}: done")
