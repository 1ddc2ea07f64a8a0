"""Plans are a function of their seed, and can be carried out; a new kind renumbers none."""

import hashlib
from dataclasses import replace

import pytest

from rankbook.testbed.faults import KINDS, FaultKind, Injection, draw_plan
from rankbook.testbed.faults.plan import (
    EPOCH,
    LATER_EVERY,
    MAX_NODES,
    ORIGINAL,
    RAISED,
    RAISED_FROM,
)
from rankbook.testbed.faults.reference import BATCH, SAMPLES

SEEDS = range(800)
LATER = range(RAISED_FROM, len(SEEDS))
# of the plans that recorded results name: of seeds 0 to 199, and of 200 to 499
RECORDED = {
    range(200): "4980d162b044508f9eaf8474ae6ae26824dad4a5a0ba8f61624c293aaf368a02",
    range(200, 500): "150375d5d303ab5485407ae7cb9b8edbd2e003e0a33a3d192f6ce4b2d4c5a617",
}


@pytest.fixture(scope="module")
def plans():
    return [draw_plan(seed) for seed in SEEDS]


def join(monkeypatch, name: str, **traits) -> None:
    """One more kind, as a function at the end of kinds.py would be."""
    inject = lambda target, draw: Injection(0.0, lambda event: True)  # noqa: E731
    monkeypatch.setitem(KINDS, name, FaultKind(name, inject, **traits))


def test_a_seed_gives_the_same_plan_again(plans):
    assert [draw_plan(plan.seed) for plan in plans] == plans
    assert len({str(plan).partition(":")[2] for plan in plans}) > 500


@pytest.mark.parametrize("seeds", RECORDED)
def test_recorded_seeds_keep_their_plans(seeds):
    plans = "\n".join(str(draw_plan(seed)) for seed in seeds)
    assert hashlib.sha256(plans.encode()).hexdigest() == RECORDED[seeds], (
        "the first kinds have changed; a new kind belongs at the end of hard_kinds.py"
    )


@pytest.mark.parametrize("traits", [{}, {"sudden": True}, {"nodes": -1}, {"nodes": 1, "steps": 25}])
def test_a_new_kind_leaves_every_fault_of_every_seed_as_it_is(monkeypatch, plans, traits):
    join(monkeypatch, "network_cut", **traits)
    struck = 0
    for old in plans:
        new = draw_plan(old.seed)
        if "network_cut" not in new.kinds:
            assert new == old
            continue
        struck += 1
        assert new.faults[-1].kind == "network_cut"
        assert replace(new, faults=new.faults[:-1], steps=old.steps) == old
        assert new.steps >= old.steps
        assert old.seed in LATER
    assert 0 < struck <= len(LATER) // LATER_EVERY
    assert traits.get("nodes") or struck == len(LATER) // LATER_EVERY


def test_the_next_new_kind_leaves_the_one_before_it_as_it_is(monkeypatch):
    join(monkeypatch, "network_cut")
    before = [draw_plan(seed) for seed in SEEDS]
    join(monkeypatch, "clock_set_back")
    after = [draw_plan(seed) for seed in SEEDS]
    assert any("clock_set_back" in plan.kinds for plan in after)
    for old, new in zip(before, after, strict=True):
        assert tuple(f for f in new.faults if f.kind != "clock_set_back") == old.faults


def test_any_row_of_seeds_has_every_kind_that_is_new_there(plans):
    original, raised = set(list(KINDS)[:ORIGINAL]), set(list(KINDS)[ORIGINAL:RAISED])
    for first in range(0, RAISED_FROM - ORIGINAL, 7):
        assert set().union(*(p.kinds for p in plans[first : first + ORIGINAL])) == original
    for first in range(RAISED_FROM, 400, 7):
        seeds = plans[first : first + RAISED - ORIGINAL]
        assert raised <= set().union(*(plan.kinds for plan in seeds))


def test_a_cable_is_pulled_where_there_are_two_nodes_and_workers_come_in_twos(plans):
    for plan in plans:
        nodes = plan.nodes
        for fault in plan.faults:
            assert nodes == 2 or not KINDS[fault.kind].hosts, str(plan)
            nodes += KINDS[fault.kind].nodes
    twos = [plan.workers == 2 for plan in plans[RAISED_FROM:]]
    assert sum(twos) > len(twos) / 2


def test_every_kind_says_what_it_does_under_its_own_name():
    for name, kind in KINDS.items():
        assert kind.name == name == kind.inject.__name__ and kind.description.endswith(".")


def test_there_is_always_a_node_and_never_more_than_three(plans):
    for plan in plans:
        nodes = plan.nodes
        for fault in plan.faults:
            nodes += KINDS[fault.kind].nodes
            assert 1 <= nodes <= MAX_NODES, str(plan)
            assert 0 <= fault.draw < 1


def test_the_first_fault_waits_for_steps_and_epochs_are_whole(plans):
    assert EPOCH == -(-SAMPLES // BATCH)
    for plan in plans:
        later = len(set(list(KINDS)[RAISED:]) & plan.kinds)
        assert not plan.faults[0].seconds and 1 <= len(plan.faults) - later <= 3
        assert plan.steps % EPOCH == 0
        assert sum(fault.steps for fault in plan.faults) < plan.steps


def test_some_strike_before_the_job_has_recovered(plans):
    sudden = {fault.kind for plan in plans for fault in plan.faults if fault.seconds}
    assert sudden == {kind.name for kind in KINDS.values() if kind.sudden}
