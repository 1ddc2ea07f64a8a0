"""Predictions beside what others measured: sources, conversions by hand, what a lie would do."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from rankbook.plan.machines import Assumptions, Machines, find_card
from rankbook.plan.published import compare, median_error, seconds_of, summary
from rankbook.plan.published_rows import left_out, published, read, sources
from rankbook.plan.published_units import recomputed_flops
from rankbook.plan.step import step_time

ROWS = published()


def rows_of(source):
    return [row for row in ROWS if row.source.name == source]


@pytest.mark.parametrize("source", sources().values(), ids=lambda source: source.name)
def test_a_source_says_what_it_is_and_where(source):
    assert source.url.startswith("https://")
    assert source.title
    assert source.date[:2] == "20"
    assert source.use in ("fitted", "held out")
    assert source.rows, "which of its rows were taken"
    assert rows_of(source.name)


def test_every_row_has_a_source_and_says_what_ran():
    known = sources()
    for row in ROWS:
        assert row.source == known[row.source.name]
        assert row.words
        assert row.measured
        assert row.setup.ranks == row.machines.gpus
        assert all(value > 0 for value in row.measured.values())


def test_there_are_enough_of_them():
    seconds = [row for row in ROWS if "seconds" in row.measured]
    memory = [row for row in ROWS if row.measured.keys() - {"seconds"}]
    assert len(seconds) >= 40
    assert len(memory) >= 12
    assert len({row.source for row in ROWS}) >= 4
    assert len({row.machines.card.name for row in ROWS}) >= 2


def test_a_source_is_fitted_or_held_out_with_all_of_its_rows():
    uses = Counter(source.use for source in sources().values())
    assert uses["held out"] > uses["fitted"] > 0
    held = [row for row in ROWS if row.source.use == "held out"]
    assert len(held) > len(ROWS) / 2


def test_what_is_left_out_says_why():
    assert left_out()
    assert all(entry["what"] and entry["why"] for entry in left_out())


def test_tokens_per_second_become_seconds_of_a_step():
    row = rows_of("torchtitan-a100")[0]  # 2,904 tokens a second on each of 64
    assert row.measured["seconds"] == pytest.approx(8192 / 2904)
    assert row.setup.zero == 3
    assert row.machines.card.name == "a100-80"


def test_gibibytes_and_mebibytes_become_bytes():
    row = rows_of("dlperf")[0]
    assert row.measured["card"] == 14362 * 2**20
    assert max(rows_of("bigscience")[0].measured.values()) == 16 * 2**30


def test_arithmetic_that_counts_a_second_forward_pass_by_the_paper():
    """Equation 3 of arXiv 2104.04473: 96 B s l h^2 (1 + s / 6h + V / 16 l h)."""
    shape = rows_of("megatron-2021")[0].shape
    layers, h, s, v = shape.layers, shape.hidden, shape.sequence, shape.vocabulary
    theirs = 96 * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert recomputed_flops(shape) == pytest.approx(theirs)


def test_checkpointing_between_two_ends_lies_between_them():
    row = next(row for row in ROWS if row.between)
    none = step_time(row.shape, row.setup, row.machines).total
    layers = step_time(row.shape, replace(row.setup, checkpointing="layers"), row.machines).total
    assert none < seconds_of(row, row.machines) < layers
    assert row.between.why


def test_an_error_is_signed_and_its_median_is_not():
    rows = compare()
    low = next(row for row in rows if row.predicted < row.measured)
    assert -1 < low.error < 0
    assert median_error([low]) == pytest.approx(-low.error)
    assert math.isnan(median_error([]))


def test_the_summary_counts_every_row_once():
    rows = compare()
    told = summary(rows)
    for kind in ("time", "memory"):
        own = [row for row in rows if row.kind == kind]
        assert told[kind]["held out"]["rows"] + told[kind]["fitted"]["rows"] == len(own)
        held = [row for row in own if not row.fitted]
        assert told[kind]["held out"]["median"] == median_error(held)
        assert sum(each["rows"] for each in told[kind]["by source"].values()) == len(own)


@pytest.mark.parametrize("kind", ["time", "memory"])
def test_the_median_of_what_was_held_out_is_within_the_goal(kind):
    told = summary()[kind]
    assert told["held out"]["median"] < told["goal"]


@pytest.mark.parametrize(
    "lie",
    [{"matmul": 0.3}, {"matmul": 1.2}, {"memory": 0.2}, {"link": 0.1}, {"link": 0.2, "hidden": 0}],
)
def test_a_sabotaged_assumption_makes_it_worse(lie):
    """Of the rows that chose them, and of those that did not."""
    right, wrong = summary()["time"], summary(compare(Assumptions(**lie)))["time"]
    assert (
        wrong["by source"]["torchtitan-a100"]["median"]
        >= right["by source"]["torchtitan-a100"]["median"]
    )
    assert wrong["by source"]["dlperf"]["median"] > right["by source"]["dlperf"]["median"]
    assert wrong["held out"]["median"] > right["held out"]["median"]


def test_a_card_twice_as_fast_is_noticed():
    row = rows_of("torchtitan-a100")[0]
    fast = replace(find_card("a100-80"), flops=624e12, bandwidth=4.078e12)
    assert seconds_of(row, Machines(fast, 64)) < 0.6 * seconds_of(row, row.machines)


def test_no_two_rows_of_a_table_are_the_same():
    for table in read()["tables"]:
        rows = [tuple(row) for row in table["rows"]]
        assert len(set(rows)) == len(rows)
