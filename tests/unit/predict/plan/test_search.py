"""Every layout on machines: what is tried, what wins, and why the others lose."""

import re
from dataclasses import replace

import pytest

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.plan.machines import Machines, find_card
from rankbook.predict.plan.reasons import telling_losers, why_it_lost
from rankbook.predict.plan.search import OFF, best_plans, setups
from rankbook.predict.plan.shapes import shape_from_params

SMALL = shape_from_params(7.5e9)
ON_64 = Machines(find_card("h200"), 64)


@pytest.fixture(scope="module")
def plans():
    return best_plans(SMALL, ON_64, 4e6)


def test_all_gpus_work_and_the_batch_is_near(plans):
    for plan in plans.all:
        assert plan.setup.ranks == 64
        assert abs(plan.batch_tokens / 4e6 - 1) <= OFF


def test_each_layout_is_there_once(plans):
    assert len({plan.layout for plan in plans.all}) == len(plans.all)


def test_the_best_fit_and_none_that_fits_is_faster(plans):
    paces = [plan.tokens_per_second for plan in plans.all if plan.fits]
    assert [plan.tokens_per_second for plan in plans.best] == sorted(paces, reverse=True)[:3]
    assert all(plan.memory.total < ON_64.card.memory for plan in plans.best)
    assert all(0 < plan.mfu < 1 for plan in plans.all)


def test_what_fits_comes_before_what_does_not():
    large = best_plans(shape_from_params(70e9), Machines(find_card("a100-80"), 32), 4e6)
    fits = [plan.fits for plan in large.all]
    assert fits == sorted(fits, reverse=True)
    assert not all(fits)


def test_nothing_fits_and_the_smallest_is_known():
    plans = best_plans(shape_from_params(405e9), Machines(find_card("l40s"), 8), 1e6)
    assert plans.best == []
    assert plans.smallest.memory.total == min(plan.memory.total for plan in plans.all)
    said = why_it_lost(plans.smallest, None)
    assert re.search(r"needs \d+ GB of \d+ GB: .* alone \d+ GB", said)


def test_a_loser_is_of_another_kind_and_says_why(plans):
    best = plans.best[0]
    assert why_it_lost(best, best) == "is the fastest that fits"
    for plan in plans.losers:
        assert plan not in plans.best
        said = why_it_lost(plan, best)
        assert re.match(r"needs \d+ GB|\d+% slower: \d+% of its step goes to ", said), said


def test_tensor_parallelism_over_nodes_loses_by_its_messages():
    """With eight heads of keys and values tp ends at 8; nodes of two make it cross."""
    plans = best_plans(SMALL, Machines(find_card("h100"), 8, per_node=2), 1e6)
    (plan,) = [p for p in plans.all if p.setup.tp == 8]
    said = why_it_lost(plan, plans.best[0])
    assert said.endswith("messages of tensor parallelism, between nodes")


def test_three_of_eight_cross_and_it_is_said():
    shape = ModelShape(12, 768, 12, 3072, 50304, 1536, kv_heads=3)
    plans = best_plans(shape, Machines(find_card("l40s"), 24), 24 * 1536)
    plan = next(p for p in plans.all if p.setup.tp == 3 and p.setup.pp == 1)
    assert why_it_lost(plan, plans.best[0]).endswith("tensor parallelism, between nodes")


def test_a_ring_over_nodes_may_be_limited_inside_one():
    """Four network cards carry 50 GB/s between L40S nodes, PCIe 32 GB/s inside one."""
    slow = Machines(find_card("l40s"), 64, per_node=4)
    plans = best_plans(shape_from_params(13e9), slow, 64 * 4096)
    plan = next(p for p in plans.all if p.setup.dp == 64 and p.setup.zero == 3)
    limit = "between nodes (limited by the link inside a node)"
    assert why_it_lost(plan, plans.best[0]).endswith(f"messages among replicas, {limit}")
    card = replace(slow.card, inside=find_card("h200").inside)
    other = best_plans(shape_from_params(13e9), replace(slow, card=card), 64 * 4096)
    plan = next(p for p in other.all if p.setup.dp == 64 and p.setup.zero == 1)
    assert "limited" not in why_it_lost(plan, other.best[0])


def test_what_lacks_little_says_how_little(plans):
    """Not "needs 139 GB of 139 GB"."""
    best = plans.best[0]
    memory = best.memory.total + Machines(find_card("h200"), 64).assumed.workspace
    card = replace(find_card("h200"), memory=(memory - 0.25e9) / 0.95)
    tight = replace(best, machines=Machines(card, 64))
    assert not tight.fits
    assert why_it_lost(tight, None).startswith("lacks 0.25 GB: needs 60.1 GB, activations 41 GB")


def test_each_cause_is_told_once(plans):
    told = telling_losers(plans, most=99)
    assert sum(alike for _, alike in told) == len(plans.losers)
    causes = [re.sub(r"[0-9]+%?", "", why_it_lost(plan, plans.best[0])) for plan, _ in told]
    assert len(set(causes)) == len(told) < len(plans.losers)
    assert told[0][0] == plans.losers[0]
    assert telling_losers(plans, most=2) == told[:2]


def test_no_stage_is_empty_and_parts_are_equal():
    shape = ModelShape(5, 96, 6, 256, 1000, 64, kv_heads=3)
    tried = list(setups(shape, Machines(find_card("h100"), 24), 24 * 64 * 4))
    assert {setup.tp for setup in tried} == {1}  # 3 divides heads, but neither 256 nor 64
    assert {setup.pp for setup in tried} == {1, 2, 3, 4}


def test_a_batch_of_less_than_a_sequence():
    with pytest.raises(ValueError, match="a batch of 100 tokens has not one sequence of 4,096"):
        best_plans(SMALL, ON_64, 100)


def test_a_batch_that_no_layout_comes_near():
    shape = ModelShape(1, 64, 1, 127, 1000, 64)
    with pytest.raises(ValueError, match="no layout on 64 GPUs has a batch within 5 %"):
        best_plans(shape, ON_64, 20 * 64)
