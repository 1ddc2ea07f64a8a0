"""Plans are a function of their seed, and can be carried out."""

from rankbook.faults import KINDS, draw_plan
from rankbook.faults import kinds as functions
from rankbook.faults.plan import EPOCH, MAX_NODES, NODES_AFTER, SUDDEN
from rankbook.faults.reference import BATCH, SAMPLES

PLANS = [draw_plan(seed) for seed in range(600)]


def test_a_seed_gives_the_same_plan_again():
    assert [draw_plan(plan.seed) for plan in PLANS] == PLANS
    assert len({str(plan).partition(":")[2] for plan in PLANS}) > 500


def test_any_dozen_seeds_have_every_kind():
    for first in range(0, 100, 7):
        struck = set().union(*(draw_plan(seed).kinds for seed in range(first, first + 12)))
        assert struck == set(KINDS)


def test_every_kind_has_its_function():
    assert all(callable(getattr(functions, kind)) for kind in KINDS)
    assert set(SUDDEN) | set(NODES_AFTER) <= set(KINDS)


def test_there_is_always_a_node_and_never_more_than_three():
    for plan in PLANS:
        nodes = plan.nodes
        for fault in plan.faults:
            nodes += NODES_AFTER.get(fault.kind, 0)
            assert 1 <= nodes <= MAX_NODES, str(plan)
            assert 0 <= fault.draw < 1


def test_the_first_fault_waits_for_steps_and_epochs_are_whole():
    assert EPOCH == -(-SAMPLES // BATCH)
    for plan in PLANS:
        assert not plan.faults[0].seconds and 1 <= len(plan.faults) <= 3
        assert plan.steps % EPOCH == 0
        assert sum(fault.steps for fault in plan.faults) < plan.steps


def test_some_strike_before_the_job_has_recovered():
    sudden = [fault for plan in PLANS for fault in plan.faults if fault.seconds]
    assert {fault.kind for fault in sudden} == set(SUDDEN)
