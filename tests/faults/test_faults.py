"""A dozen runs in which things go wrong, as drawn from their seeds: nothing is lost.

``python -m rankbook.faults --seed N`` repeats one; ``make soak`` runs 200.
"""

import contextlib

import pytest

from rankbook.faults import KINDS, CannotMount, Driver, draw_plan
from rankbook.live.torchrun.session import Torchrun

SEEDS = range(12)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(Torchrun()) as torchrun:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")  # a toy's ranks, and more than there are GPUs
        yield Driver(torchrun, tmp_path_factory.mktemp("faults"))


def test_the_seeds_have_every_kind_of_fault():
    assert set().union(*(draw_plan(seed).kinds for seed in SEEDS)) == set(KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost(seed, driver):
    plan = draw_plan(seed)
    try:
        run = driver.run(plan)
    except CannotMount as error:
        pytest.skip(f"this process may mount no small disk that could be filled: {error}")
    assert not run.problems, f"\n{run}"
    assert [strike.fault for strike in run.strikes] == list(plan.faults)
