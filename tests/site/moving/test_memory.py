"""The figure on a rank's memory says what `bookext.moving_data.memory.rank_memory` says."""

import random
from itertools import product

from bookext.moving_data import memory as told
from bookext.moving_data.memory import CHECKPOINTING, MODELS, PRECISIONS, rank_memory
from rounding import fixed

from rankbook.predict.memory import Setup

GIB = 2**30
PARTS = ("parameters", "gradients", "optimizer", "activations")


def by_python(model: str, zero: int, **settings) -> dict[str, str]:
    """What the figure has to show."""
    shape = MODELS[model]
    while shape.heads % settings["tensor"]:  # what cannot be cut is cut into fewer
        settings["tensor"] //= 2
    while settings["pipeline"] > shape.layers:
        settings["pipeline"] //= 2
    names = {"data": "dp", "tensor": "tp", "pipeline": "pp"}
    options = {names.get(name, name): value for name, value in settings.items()}
    stages = [rank_memory(shape, Setup(zero=stage, **options)) for stage in range(4)]
    totals = [sum(kept.values()) for kept in stages]
    return {
        **{f"total-{stage}": fixed(total / GIB, 1) for stage, total in enumerate(totals)},
        **{f"part-{part}": fixed(stages[zero][part] / GIB, 1) for part in PARTS},
        "ranks": str(settings["data"] * settings["tensor"] * settings["pipeline"]),
    }


def some(count: int) -> list[dict]:
    """Settings: every precision with every checkpointing and stage, the rest drawn."""
    chance = random.Random(0)
    kinds = list(product(range(4), PRECISIONS, CHECKPOINTING))
    return [
        {
            **dict(zip(("zero", "precision", "checkpointing"), kinds[i % len(kinds)], strict=True)),
            "model": chance.choice(list(MODELS)),
            "data": 2 ** chance.randrange(11),
            "tensor": 2 ** chance.randrange(4),
            "pipeline": 2 ** chance.randrange(5),
            "sequences": 2 ** chance.randrange(6),
        }
        for i in range(count)
    ]


def test_it_computes_what_python_computes(ask):
    chosen = some(480)
    for settings, shown in zip(chosen, ask("memory", chosen), strict=True):
        assert shown == by_python(**settings), settings


def test_by_touch_and_by_keyboard(bare):
    page = bare("memory", viewport={"width": 360, "height": 740}, has_touch=True)
    page.locator("select[name=zero]").select_option("3")
    page.locator("select[name=checkpointing]").select_option("layers")
    page.locator("input[name=model]").tap()  # in the middle
    page.locator("input[name=tensor]").press("End")
    settings = page.evaluate("Moving.chosen('memory')")
    del settings["frame"]
    assert settings["tensor"] == 8 and settings["zero"] == 3
    expected = by_python(**settings)
    assert page.inner_text("[data-shown=ranks]") == expected["ranks"]
    drawn = page.locator(".moving-drawing").text_content()
    assert all(f"{expected[f'total-{stage}']} GiB" in drawn for stage in range(4))
    assert all(expected[f"part-{part}"] in drawn for part in PARTS)


def test_what_cannot_be_cut_is_not(bare):
    page = bare("memory")
    page.locator("input[name=model]").press("Home")  # 12 heads, 12 layers
    for setting, most in (("tensor", 4), ("pipeline", 8)):
        page.locator(f"input[name={setting}]").press("End")
        assert page.evaluate("Moving.chosen('memory')")[setting] == most


def test_it_has_every_model():
    assert list(told.data()["models"]) == list(MODELS)
