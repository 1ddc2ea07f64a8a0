"""The program uneven under plain torchrun: what each way takes, and how it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def torchrun(ranks: int, options: str) -> subprocess.CompletedProcess:
    command = [*TORCHRUN, "--nproc-per-node", str(ranks), "-m", "rankbook.programs.uneven"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *options.split()], env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.mark.parametrize(
    ("options", "took", "times"),
    [
        ("--how join --inputs 2 4", (2, 4), "once 6, more often 0, never 0"),
        ("--how pad --samples 5", (3, 3), "once 4, more often 1, never 0"),
    ],
)
def test_two_ranks(options, took, times):
    run = torchrun(2, options)
    assert run.returncode == 0, run.stderr
    for rank, number in enumerate(took):
        assert f"rank {rank}: " in run.stdout and f"trained on {number} in an epoch" in run.stdout
    assert run.stdout.count(f"inputs taken {times}") == 1  # rank 0 only
    (loss,) = [line.split() for line in run.stdout.splitlines() if line.startswith("loss")]
    assert float(loss[6]) < float(loss[4]) - 1


def test_fewer_samples_than_ranks_end_all_ranks_with_one_sentence():
    run = torchrun(2, "--samples 1")
    assert run.returncode != 0
    said = [line for line in run.stderr.splitlines() if line.startswith("uneven")]
    assert said == [
        "uneven: 1 samples cannot be dealt out to 2 ranks; use --samples 2 or more, or fewer ranks"
    ]
    assert "exitcode  : 2" in run.stderr and "rankbook/programs" not in run.stderr
