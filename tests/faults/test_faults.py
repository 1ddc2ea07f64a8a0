"""A dozen runs in which things go wrong, as drawn from their seeds: nothing is lost.

``python -m rankbook.faults --seed N`` repeats one; ``make soak`` runs 200.
"""

import contextlib
import os
import re
import signal

import pytest

from rankbook.faults import KINDS, CannotMount, Driver, Fault, Plan, draw_plan, kinds
from rankbook.live.torchrun.session import Torchrun

SEEDS = range(12)
FORGETFUL = """
from rankbook.programs import elastic, elastic_run

restore = elastic_run.restore
def and_begin_the_data_anew(*what):
    restore(*what)
    return {"epoch": 0, "sample": 0}

elastic_run.restore = and_begin_the_data_anew
elastic.main()
"""

# a sharded checkpoint is read here, in one process
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


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


def test_a_program_that_repeats_samples_is_found_out(driver, tmp_path):
    plan = Plan(12345, nodes=1, workers=2, steps=20, faults=(Fault("worker_killed", 6, 0.5),))
    run = Driver(driver.torchrun, tmp_path, cell=FORGETFUL).run(plan)
    told = str(run)
    assert re.search(r"LOST: epoch 0: 50 samples: \d+ once, [1-9]\d* twice", told)
    assert "LOST: the loss of" in told and "LOST: 0.weight is not the same to the bit" in told
    assert "again: python -m rankbook.faults --seed 12345" in told
    assert {path.name for path in run.folder.iterdir()} == {"0-a.log", "disk", "events.jsonl"}
    assert "torchrun started the workers again" in (run.folder / "0-a.log").read_text()


def test_a_job_that_torchrun_gives_up_is_started_anew(driver, monkeypatch):
    def host_lost(victim, draw):
        blow, job = victim.renewed(), victim.job
        host = next(launch for launch in job.launches if launch.order.node == job.host)
        os.kill(host.agent.pid, signal.SIGKILL)  # nobody's order: the other agent fails with it
        return blow

    monkeypatch.setattr(kinds, "node_killed", host_lost)
    run = driver.run(Plan(12346, 2, 1, steps=20, faults=(Fault("node_killed", 5, 0.5),)))
    assert not run.problems, f"\n{run}"
    assert run.given_up and "started anew" in str(run)
