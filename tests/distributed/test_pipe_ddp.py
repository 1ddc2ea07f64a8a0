"""The program of page 27 under plain torchrun: it trains, goes on elsewhere, and refuses."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.data import wikitext2
from rankbook.training import batchify, steps_of_epoch

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
SMALL = "--batch 8 --window 60 --log-every 1"  # the last window of each split is shorter
# Another order of sums: float32 rounds a loss of about 8, and each gradient, by 2^-24 of its size
# at each addition; over the 8 x 60 tokens of a batch such errors grow with the square root, over
# six steps they add up. On processors of several kinds 1e-6 to 2e-5 was seen.
TOLERANCE = 8 * 2**-24 * (8 * 60) ** 0.5 * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pipe_ddp")


def torchrun(
    ranks: int, options: str, folder: Path, restarts: int = 0
) -> subprocess.CompletedProcess:
    """Run the program to its end, on the text that every Python carries."""
    command = [*TORCHRUN, "--nproc-per-node", str(ranks), "--max-restarts", str(restarts)]
    command += ["-m", "rankbook.programs.pipe_ddp"]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1",
        "RANKBOOK_DATA": "", "RANKBOOK_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    return subprocess.run(
        [*command, *options.split()], env=environment, capture_output=True, text=True, timeout=900
    )


def records(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def losses(log: list[dict]) -> dict[int, float]:
    return {record["step"]: record["loss"] for record in log if "loss" in record}


@pytest.fixture(scope="module")
def uninterrupted(folder):
    """One process with all stages: six steps."""
    run = torchrun(1, f"{SMALL} --steps 6 --log-file {folder}/whole.jsonl", folder)
    assert run.returncode == 0, run.stderr
    return records(folder, "whole.jsonl")


@pytest.fixture(scope="module")
def first_half(folder):
    """Four processes, two stages and two replicas: three steps, and a checkpoint."""
    options = f"--steps 3 --checkpoint {folder}/run --log-file {folder}/first.jsonl"
    run = torchrun(4, f"{SMALL} --stages 2 --replicas 2 {options}", folder)
    assert run.returncode == 0, run.stderr
    return run, records(folder, "first.jsonl")


def test_two_stages_and_two_replicas_train_as_one_process(first_half, uninterrupted):
    run, log = first_half
    plan = {"schedule": "1f1b", "ranks": 2, "replicas": 2, "stages": 2, "microbatches": 4}
    assert log[0]["start"]["plan"] == plan
    expected = losses(uninterrupted)
    assert sorted(expected) == [1, 2, 3, 4, 5, 6] and expected[6] < expected[1] - 0.3
    assert TOLERANCE < 0.3 / 1000  # a thousandth of what was learnt would be noticed
    found = losses(log)
    assert sorted(found) == [1, 2, 3]
    for step, loss in found.items():
        assert loss == pytest.approx(expected[step], abs=TOLERANCE)
    assert run.stdout.count("test loss of the best model") == 1  # rank 0 only
    assert run.stderr.count("] 3/3  loss") == 1
    assert all(record["tokens per second"] > 0 for record in log if "loss" in record)


def test_a_run_goes_on_with_other_stages_and_ranks(first_half, uninterrupted, folder):
    """From 2 x 2 processes to 2, from two stages to four, under a schedule of another family."""
    options = f"--steps 6 --checkpoint {folder}/run --log-file {folder}/second.jsonl"
    run = torchrun(2, f"{SMALL} --stages 4 --schedule zbv --resume {options}", folder)
    assert run.returncode == 0, run.stderr
    log = records(folder, "second.jsonl")
    assert log[0]["start"]["from step"] == 3
    expected, found = losses(uninterrupted), losses(log)
    assert sorted(found) == [4, 5, 6]
    for step, loss in found.items():
        assert loss == pytest.approx(expected[step], abs=TOLERANCE)
    for name in ("valid_loss", "test_loss"):
        ours, theirs = ([r[name] for r in of if name in r] for of in (log, uninterrupted))
        assert ours == pytest.approx(theirs, abs=TOLERANCE)


def test_an_epoch_is_every_whole_window_once(folder, monkeypatch):
    monkeypatch.setenv("RANKBOOK_DATA", "")
    monkeypatch.setenv("RANKBOOK_CACHE", str(folder / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    expected = steps_of_epoch(batchify(wikitext2().train, 40), 200)
    options = "--batch 40 --window 200 --epochs 1 --evaluate-on 1 --log-every 1"
    run = torchrun(1, f"{options} --log-file {folder}/epoch.jsonl", folder)
    assert run.returncode == 0, run.stderr
    assert sorted(losses(records(folder, "epoch.jsonl"))) == list(range(1, expected + 1))


def one_sentence(run: subprocess.CompletedProcess) -> str:
    """What the program said, in one line and without a traceback; it must have ended badly."""
    assert run.returncode != 0
    said = [line for line in run.stderr.splitlines() if line.startswith("pipe_ddp")]
    assert len(said) == 1, run.stderr
    assert "exitcode  : 2" in run.stderr and "rankbook/programs" not in run.stderr
    return said[0]


def test_wrong_options_end_all_ranks_with_one_sentence(folder):
    """However often torchrun starts them again."""
    run = torchrun(2, f"{SMALL} --schedule dualpipev --replicas 1", folder, restarts=1)
    assert one_sentence(run) == (
        "pipe_ddp: schedule dualpipev runs exactly two stages per rank, not 2 stages on 2 ranks; "
        "use 4 stages"
    )


def test_a_run_is_not_mixed_with_another(first_half, folder):
    run = torchrun(2, f"{SMALL} --steps 6 --checkpoint {folder}/run", folder)
    assert one_sentence(run) == (
        f"pipe_ddp: {folder}/run holds a run; go on with it by --resume, or name another folder"
    )


def test_a_run_of_which_nothing_is_whole_is_not_begun_anew(first_half, folder):
    shutil.copytree(folder / "run", folder / "torn")
    (shard,) = (folder / "torn" / "latest").glob("*/__1_0.distcp")
    shard.write_bytes(shard.read_bytes()[:-1])
    run = torchrun(2, f"{SMALL} --steps 6 --checkpoint {folder}/torn --resume", folder)
    assert one_sentence(run) == (
        f"pipe_ddp: no checkpoint in {folder}/torn/latest is whole (of {shard.parent.name}: its "
        "__1_0.distcp is missing, torn, cut or changed); bring one back from a copy, or move them "
        "away to begin anew"
    )


def test_without_torchrun_it_says_so():
    command = [sys.executable, "-m", "rankbook.programs.pipe_ddp"]
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment["PYTHONPATH"] = str(ROOT / "src")
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 2
    assert run.stderr.startswith("pipe_ddp: no process group is described here; start it with")
