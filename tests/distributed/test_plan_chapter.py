"""Page 65 shows these; a plan's seconds are computed from bytes, and live ranks send as many.

That they lose on slow links, live, is tested beside `rankbook.predict.plan.pretended`.
"""

from dataclasses import replace

import pytest

from rankbook.comm import Link
from rankbook.parallel.pipeline import PipelinePlan, simulate
from rankbook.predict.memory import ModelShape, Setup
from rankbook.predict.plan import (
    Assumptions,
    Card,
    Machines,
    best_plans,
    find_card,
    idle_share,
    shape_from_params,
    step_time,
)
from tests.distributed.launch import run_ranks
from tests.distributed.plan_ranks import CONFIG, ROWS, counted, rings

pytestmark = pytest.mark.long

SHAPE = shape_from_params(13e9)
L40S = Machines(find_card("l40s"), gpus=64, per_node=4)
BATCH = 64 * 4096
PLANS = best_plans(SHAPE, L40S, BATCH)


def at_its_best(**rule):
    """What a rule leaves open is as it suits: microbatches, checkpointing, often ZeRO."""
    plans = (p for p in PLANS.all if all(getattr(p.setup, n) == v for n, v in rule.items()))
    return next(plans).setup


RULES = {
    "tensor": at_its_best(pp=1, tp=4),
    "bubble": at_its_best(pp=8, tp=1),
    "replicas": at_its_best(dp=64, zero=3),
}


@pytest.mark.parametrize("most", RULES)
def test_each_rule_loses_by_its_own_term(most):
    rule, best = step_time(SHAPE, RULES[most], L40S), PLANS.best[0]
    assert rule.total > 1.2 * best.time.total
    assert max(rule, key=lambda name: rule[name].value) == most
    assert max(best.time, key=lambda name: best.time[name].value) == "compute"


@pytest.mark.parametrize(
    "other",
    [{"matmul": 0.5}, {"matmul": 0.8}, {"link": 0.6}, {"link": 1.0}, {"hidden": 0.5},
     {"memory": 0.6}],
)  # fmt: skip
def test_the_rules_lose_whatever_is_assumed(other):
    """The best layout changes with the assumptions, by some per cent; the losers stay losers."""
    machines = replace(L40S, assumed=replace(L40S.assumed, **other))
    best = best_plans(SHAPE, machines, BATCH).best[0].time.total
    assert all(step_time(SHAPE, rule, machines).total > 1.15 * best for rule in RULES.values())


def test_where_links_are_fast_zero_3_wins():
    best = best_plans(SHAPE, Machines(find_card("h200"), gpus=64), BATCH).best[0].setup
    assert (best.zero, best.dp) == (3, 64)
    assert PLANS.best[0].setup.zero != 3


def test_a_pipeline_of_another_depth_is_near_the_plan():
    """Nearer than predictions are to what others measured."""
    best = PLANS.best[0].time.total
    assert best < step_time(SHAPE, at_its_best(pp=4, tp=1), L40S).total < 1.2 * best


def test_the_simulator_idles_as_much_as_the_plan():
    for m in (8, 16, 64):
        idle = simulate(PipelinePlan("1f1b", 8, m)).idle_share
        assert idle == pytest.approx(idle_share(8, m))


@pytest.mark.parametrize(
    ("sizes", "setup", "shard"),
    [
        ("dp=4", Setup(dp=4, sequences=2, precision="float32"), "none"),
        ("dp=4", Setup(dp=4, zero=3, sequences=2, precision="float32"), "fsdp"),
        ("dp=2,tp=2", Setup(dp=2, tp=2, sequences=4, precision="float32"), "none"),
    ],
)
def test_live_ranks_send_the_bytes_of_the_plan(tmp_path, sizes, setup, shard):
    """On a card on which a byte takes a second and nothing else takes time, seconds are bytes."""
    byte = Link("a byte a second", alpha=0.0, beta=1.0)
    card = Card("bytes", 1e9, 1e40, 1e40, byte, byte, per_node=1)
    machines = Machines(card, gpus=4, assumed=Assumptions(link=1, hidden=0))
    time = step_time(ModelShape.of(CONFIG), setup, machines)
    ranks = run_ranks(counted, tmp_path, 4, sizes, shard, setup.microbatches)
    for name, term in (("dp", "replicas"), ("tp", "tensor")):
        found, planned = [sent.get(name, 0.0) for sent in ranks], time[term].value
        if setup.zero == 3:  # what is in no layer stays gathered for the backward pass
            assert 0.7 * planned <= max(found) <= 1.02 * planned
        else:
            assert max(found) == pytest.approx(planned, rel=0.02, abs=40)
    assert setup.dp * setup.sequences * setup.microbatches == ROWS


@pytest.mark.parametrize("how", ["none", "selective"])
def test_live_ranks_gather_and_scatter_as_often_as_the_plan_says(tmp_path, how):
    """What selective computes anew, norms' results among it, is gathered anew."""
    setup = Setup(tp=2, sequences=2, precision="float32", checkpointing=how)
    call = Link("a second a call", alpha=1.0, beta=0.0)
    card = Card("calls", 1e9, 1e40, 1e40, call, call, per_node=2)
    machines = Machines(card, gpus=2, assumed=Assumptions(link=1, hidden=0))
    planned = step_time(ModelShape.of(CONFIG), setup, machines)["tensor"].value
    for calls in run_ranks(rings, tmp_path, 2, how):
        assert calls == planned
