"""Ten runs in which things go wrong, as drawn from their seeds: nothing is lost.

``python -m rankbook.testbed.faults --seed N`` repeats one; ``make soak`` runs 500.
"""

import contextlib
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue

import pytest

from rankbook.testbed.faults import (
    KINDS,
    CannotInject,
    Driver,
    Fault,
    FaultRun,
    Machines,
    Plan,
    References,
    draw_plan,
)

SEEDS = (39, 61, 74, 210, 213, 217, 302, 305, 421, 454)  # few that have every kind
FORGETFUL = """
from rankbook.programs import elastic
from rankbook.training.checkpoint import Saved

load_into = Saved.load_into
def and_begin_the_data_anew(*what):
    load_into(*what)
    return {"epoch": 0, "sample": 0}

Saved.load_into = and_begin_the_data_anew
elastic.main()
"""

# a sharded checkpoint is read here, in one process
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """Two for the drawn runs, side by side, as each waits most of the time; a third for tests."""
    references = References()
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")  # a toy's ranks, and more than there are GPUs
        torchruns = [stack.enter_context(contextlib.closing(Machines())) for _ in range(3)]
        yield [Driver(t, tmp_path_factory.mktemp("faults"), references=references)
               for t in torchruns]  # fmt: skip


@pytest.fixture
def driver(drivers):
    """One that no drawn run uses meanwhile."""
    return drivers[2]


@pytest.fixture(scope="module")
def runs(request, drivers):
    """By seed, the run of each that is tested, or the promise of it."""
    free = SimpleQueue()
    for driver in drivers[:2]:
        free.put(driver)

    def run(seed: int) -> FaultRun:
        driver = free.get()
        try:
            return driver.run(draw_plan(seed))
        finally:
            free.put(driver)

    tests = [t for t in request.session.items if t.name.startswith("test_nothing_is_lost")]
    with ThreadPoolExecutor(2) as pool:
        yield {seed: pool.submit(run, seed) for seed in (t.callspec.params["seed"] for t in tests)}
        pool.shutdown(cancel_futures=True)


def test_the_seeds_have_every_kind_of_fault():
    plans = [draw_plan(seed) for seed in SEEDS]
    assert set().union(*(plan.kinds for plan in plans)) == set(KINDS)
    assert any(plan.sharded for plan in plans) and any(plan.workers > 1 for plan in plans)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost(seed, runs):
    try:
        run = runs[seed].result()
    except CannotInject as error:
        pytest.skip(f"{error}")
    assert not run.problems, f"\n{run}"
    assert [injected.fault for injected in run.injected] == list(run.plan.faults)


def test_a_program_that_repeats_samples_is_found_out(driver, tmp_path):
    plan = Plan(12345, nodes=1, workers=2, steps=20, faults=(Fault("worker_killed", 6, 0.5),))
    run = Driver(driver.torchrun, tmp_path, cell=FORGETFUL).run(plan)
    told = str(run)
    assert run.failed == [3, 4, 5]
    assert re.search(r"LOST: epoch 0: 50 samples: \d+ once, [1-9]\d* twice", told)
    assert "LOST: the loss of" in told and "LOST: 0.weight is not the same to the bit" in told
    assert "again:" not in told  # this plan was not drawn
    assert {path.name for path in run.folder.iterdir()} == {"0-a.log", "disk", "events.jsonl"}
    assert "torchrun started the workers again" in (run.folder / "0-a.log").read_text()


def test_a_run_whose_faults_cannot_all_strike_is_audited_all_the_same(driver, monkeypatch):
    """Seed 424 was one, with TORCH_ELASTIC_WORKER_IDENTICAL=1: done before its last fault."""
    late = Fault("worker_killed", steps=6, draw=0.5)
    monkeypatch.setattr("rankbook.testbed.faults.driver.LONGER", 1)
    run = driver.run(Plan(12347, nodes=1, workers=2, steps=5, faults=(late,)))
    assert run.problems == ["not all of the faults could strike: 5 steps were done too soon"]
    assert not run.injected and not run.failed and run.exactly and run.seconds
    assert len(run.worlds) == 1


def test_a_job_that_torchrun_gives_up_is_started_anew(driver, monkeypatch):
    def host_lost(target, draw):
        injection, job = target.restart_expected(), target.job
        host = next(launch for launch in job.launches if launch.spec.node == job.host)
        os.kill(host.agent.pid, signal.SIGKILL)  # nobody's order: the other agent fails with it
        return injection

    monkeypatch.setitem(KINDS, "node_killed", replace(KINDS["node_killed"], inject=host_lost))
    run = driver.run(Plan(12346, 2, 1, steps=20, faults=(Fault("node_killed", 5, 0.5),)))
    assert not run.problems, f"\n{run}"
    assert run.given_up and "started anew" in str(run)
