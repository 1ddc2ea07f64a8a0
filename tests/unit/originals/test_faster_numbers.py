"""The text's table as data: what changed from row to row, and how a speed-up is shared out."""

import pytest

from originals.faster_numbers import (
    BASES,
    MENTIONED,
    ROWS,
    changed_settings,
    gains,
    recorded_gains,
    speed_up_steps,
    text_row,
)
from rankbook.speed.recipes import ladder as recipes

WAY = ("plain loop, opening", "plain loop", "Trainer", "16 bits", "DDP", "DeepSpeed")


def test_each_row_claims_a_change_that_it_has_and_names_its_base():
    for row in ROWS:
        if row.base:
            assert row.claims in changed_settings(row, text_row(row.base))


def test_settings_that_the_text_does_not_name_changed_in_four_steps():
    also = {}
    for row in ROWS:
        if row.base:
            also[row.name] = set(changed_settings(row, text_row(row.base))) - {row.claims}
    assert also.pop("Trainer") == {"tested", "extras"}
    assert also.pop("DDP") == {"strategy", "batch"}
    assert also.pop("Fabric") == {"workers", "tested", "extras", "dropout"}
    assert not any(also.values())


def test_one_gpu_takes_four_times_the_steps_of_four():
    assert text_row("16 bits").steps == 8748 and text_row("DDP").steps == 2187
    assert text_row("DDP").batch == 48
    assert text_row("DeepSpeed").gpu_minutes == pytest.approx(11)


def test_factors_multiply_to_the_whole_and_shares_add_up_to_one():
    steps = speed_up_steps(WAY)
    product = 1.0
    for step in steps:
        product *= step["times"]
    assert product == pytest.approx(22.53 / 2.75)
    assert sum(step["share"] for step in steps) == pytest.approx(1)
    assert steps[0]["changed"] == {}  # two numbers for one thing


def test_the_text_itself_says_four_of_the_changes_that_it_does_not_name():
    unsaid = {}
    for row in ROWS:
        if row.base:
            found = changed_settings(row, text_row(row.base)).keys() - {row.claims}
            assert found >= set(MENTIONED.get(row.name, ()))
            unsaid[row.name] = found - set(MENTIONED.get(row.name, ()))
    assert {name: kept for name, kept in unsaid.items() if kept} == {
        "DDP": {"batch"},
        "Fabric": {"workers", "tested", "dropout"},
    }


def test_gains_are_over_the_row_s_own_base_and_leave_out_what_did_not_run():
    rows = [
        {"name": "plain", "base": None, "turns": [8.0, 9.0, 16.0]},
        {"name": "packed", "base": "plain", "turns": [4.0, 3.0, 4.0]},
        {"name": "tf32", "base": "packed", "skipped": "no GPU"},
        {"name": "fp16", "base": "tf32", "turns": [1.0, 1.0, 1.0]},
    ]
    assert gains(rows) == {"packed": {"median": 3.0, "p10": 2.0, "p90": 4.0, "over": "plain"}}


def test_gains_of_a_kind_of_device_that_was_not_measured_are_none():
    ladder = [{"name": "plain", "base": None, "turns": [2.0]}]
    ladder += [{"name": "fused", "base": "plain", "turns": [1.0]}]
    results = [{"padding": [], "kind": "CPU"}, {"kind": "CPU", "ladder": ladder}]
    assert recorded_gains(results)["fused"]["median"] == 2.0
    assert recorded_gains(results, "GPU") == {} == recorded_gains([])


def test_what_a_base_computes_is_what_its_recipe_says():
    known = {recipe.name: recipe for recipe in recipes("cpu")}
    padded = {"longest of all": "padded", "longest of batch": "padded"}
    for name, said in BASES.items():
        recipe = known[name]
        batching = padded.get(recipe.batching, recipe.batching)
        assert said == f"{batching}, {recipe.attention}"
