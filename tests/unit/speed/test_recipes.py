"""Recipes are data: one switch from their base, rates by rule, clear errors."""

import math

import pytest

from rankbook.speed.recipes import SWITCHES, Recipe, changed, ladder, recipe
from rankbook.speed.sizes import SIZES, size

LADDERS = ("cpu", "full")


@pytest.mark.parametrize("name", LADDERS)
def test_each_recipe_differs_from_its_base_in_one_switch(name):
    recipes = {r.name: r for r in ladder(name)}
    assert len(recipes) == len(ladder(name))
    for number, r in enumerate(recipes.values()):
        if number == 0:
            assert r.base is None
        else:
            assert len(changed(r, recipes[r.base])) == 1, r.name
            assert list(recipes).index(r.base) < number


@pytest.mark.parametrize("name", LADDERS)
def test_the_main_line_is_one_chain_without_its_sides(name):
    main = [r for r in ladder(name) if not r.side]
    assert [r.base for r in main] == [None, *(r.name for r in main[:-1])]
    assert all(r.about and len(r.about) < 80 for r in ladder(name))


def test_the_first_recipe_is_the_original(name="full"):
    plain = ladder(name)[0]
    assert plain.batch(SIZES["full"]) == 12
    assert plain.rate(SIZES["full"]) == 5e-5
    assert (plain.batching, plain.attention, plain.precision) == (
        "longest of all",
        "eager",
        "float32",
    )
    assert plain.bookkeeping == "every step" and plain.workers == 1 and plain.compile is None


def test_a_ladder_reaches_every_switch():
    for name in LADDERS:
        differing = {
            switch for r in ladder(name) if r.base for switch in changed(r, recipe(r.base, name))
        }
        without = {"dropout"} if name == "cpu" else set()  # the size cpu has none
        assert differing == set(SWITCHES) - without, name


@pytest.mark.parametrize(("rule", "factor"), [("sqrt", 2.0), ("linear", 4.0), ("same", 1.0)])
def test_rate_follows_the_batch(rule, factor):
    tiny = size("cpu", lr=1e-3, batch=6)
    r = Recipe(name="mine", batch_times=4, rate_rule=rule)
    assert r.batch(tiny) == 24
    assert r.rate(tiny) == pytest.approx(1e-3 * factor)


def test_equal_mathematics_have_equal_curves():
    plain = recipe("plain")
    same = (
        "seldom",
        "lightning",
        "longest of batch",
        "packed",
        "sdpa",
        "bf16",
        "bf16 residual",
    )
    assert {recipe(name).curve for name in same} == {plain.curve}
    assert recipe("bucketed").curve != plain.curve
    assert recipe("compile").curve == recipe("no dropout").curve != plain.curve
    assert recipe("accumulation").curve == recipe("4x batch").curve != plain.curve
    assert recipe("4x, same rate").curve != recipe("4x batch").curve
    assert recipe("4x batch").rate_times == math.sqrt(4)


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(ValueError, match=r"'pakced' is unknown .* 'packed'"):
        recipe("pakced")
    with pytest.raises(ValueError, match="no ladder 'tpu'; use cpu or full"):
        ladder("tpu")


@pytest.mark.parametrize(
    ("switch", "value"),
    [("batching", "sorted"), ("precision", "fp8"), ("accumulate", 0), ("workers", -1)],
)
def test_a_switch_takes_its_values_only(switch, value):
    with pytest.raises(ValueError, match=switch):
        Recipe(name="mine", **{switch: value})


def test_a_recipe_of_ones_own_keeps_the_name():
    mine = recipe("packed").replace(workers=0)
    assert mine.name == "packed"
    assert changed(mine, recipe("packed")) == {"workers": [1, 0]}
