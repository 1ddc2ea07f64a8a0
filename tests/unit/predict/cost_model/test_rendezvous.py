"""The simulated rendezvous against single cases, and against real agents that were measured."""

from math import inf
from statistics import median

import pytest

from plots import recorded
from rankbook.predict.cost_model import RendezvousCosts, join, watching

QUICK = RendezvousCosts(1e-3, (1e-3, 0), (1e-4, 0), (0, 100))


def test_one_after_the_other_each_writes_once():
    found = join(10, QUICK, spread=1000, give_up=2000)
    assert found.writes >= 10  # and heartbeats while they wait
    together = join(10, RendezvousCosts(0, (0, 0), (1e-9, 0), (0, 100)))
    assert together.writes == 10 and 1 < together.seconds < 1.31  # 0.3 s of delay, one of waiting


def test_all_at_once_everyone_loses_to_everyone():
    """Costs so that each race has one winner, and all others come again together."""
    costs = RendezvousCosts(1e-3, (1e-3, 0), (1e-6, 0), (0, 100))
    found = join(20, costs, spread=0)
    assert found.writes == 20 * 21 / 2
    assert found.seconds == pytest.approx(20 * 1e-3 + 1, rel=0.05)
    # the k-th race: those left send the old list of k members, the new one and get one
    assert found.nbytes > sum(3 * 100 * k * (20 - k) for k in range(20))


def test_who_waits_longer_than_five_seconds_sends_heartbeats():
    late = join(2, QUICK, spread=100, seed=1, give_up=300)
    assert late.seconds > 20 and late.writes > 4


def test_it_is_given_up():
    slow = RendezvousCosts(1e-3, (1e-3, 0), (0.1, 0), (0, 100))
    assert join(100, slow, spread=0, give_up=5).seconds == inf


def test_agents_that_share_cores_wait_for_one():
    heavy = RendezvousCosts(0.1, (0.1, 0), (1e-4, 0), (0, 100))
    alone, shared = join(16, heavy), join(16, heavy, cores=1)
    assert shared.seconds > alone.seconds + 0.5


def test_the_same_seed_gives_the_same():
    assert join(64, QUICK, seed=3) == join(64, QUICK, seed=3) != join(64, QUICK, seed=4)


def test_the_list_is_read_once_a_second_by_all():
    assert watching(100, QUICK) == 100 * 100 * 100


def test_as_the_real_agents_were():
    """Up to 64 of them; where more share two cores, the simulation collides too often."""
    result = recorded("rendezvous")[0]
    costs = RendezvousCosts.of(result)
    for row in result["rows"]:
        if (agents := row["agents"]) > 64:
            continue
        runs = [join(agents, costs, cores=2, seed=seed) for seed in range(9)]
        assert row["writes"] / 2 < median(run.writes for run in runs) < row["writes"] * 2
        assert row["median"] / 1.8 < median(run.seconds for run in runs) < row["median"] * 1.8
        assert median(run.nbytes for run in runs) / 1e6 == pytest.approx(row["MB"], 0.5, 0.02)
