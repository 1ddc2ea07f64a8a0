"""Every layout that a plan can print has the memory that it promises, on live ranks."""

from dataclasses import asdict, replace

from rankbook.predict.memory import ModelShape, fullest
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan import Machines, Plan, best_plans, find_card
from rankbook.predict.plan.settings.said import schedule
from tests.distributed.launch import run_ranks
from tests.distributed.plan_memory_ranks import CONFIG, peaks

SHAPE = ModelShape.of(CONFIG, 64)
MACHINES = Machines(find_card("h100"), 4, per_node=2)
PLANS = best_plans(SHAPE, MACHINES, 16 * 64).all


def on_gloo(plan: Plan) -> Setup:
    """As printed; gloo's ranks keep a copy of what they send."""
    return replace(plan.setup, schedule=schedule(plan).name, gloo=True)


def test_every_layout_is_among_them():
    kinds = {(p.setup.pp, p.setup.dp, p.setup.tp) for p in PLANS}
    assert kinds == {(1, 4, 1), (4, 1, 1), (1, 1, 4), (2, 2, 1), (2, 1, 2), (1, 2, 2)}
    assert {p.setup.zero for p in PLANS} == {0, 1, 2, 3}
    assert any(p.setup.sharing < p.setup.dp for p in PLANS if p.setup.zero == 3)


def test_live_ranks_hold_what_the_plan_promises(tmp_path):
    setups = [on_gloo(plan) for plan in PLANS]
    ranks = run_ranks(peaks, tmp_path, 4, [asdict(setup) for setup in setups])
    for setup, found in zip(setups, zip(*ranks, strict=True), strict=True):
        terms = fullest(SHAPE, setup)[1]
        least = terms.total - terms["buffers"].value  # on their way, or arrived by then
        print(f"{setup.layout} zero {setup.zero}: {max(found) / terms.total:.3f}")
        assert 0.95 * least < max(found) < 1.1 * terms.total, setup
