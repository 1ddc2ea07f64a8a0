"""The program speed, alone and under torchrun: the same training, on a machine with torch only."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size
from rankbook.speed.token_file import save_tokens

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
# as on a GPU box: importing one of these would raise ImportError
BARE = (
    "import sys; sys.modules |= dict.fromkeys(('transformers', 'datasets', 'tokenizers', 'pyarrow',"
    " 'matplotlib', 'lightning', 'deepspeed', 'IPython', 'ipykernel'));"
    "from benchmarks.ladder import run as speed; sys.exit(speed.status(speed.main()))"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with made-up reviews of the size "cpu"."""
    folder = tmp_path_factory.mktemp("speed")
    cpu = size("cpu")
    splits = {name: synthetic(count, cpu) for name, count in cpu.splits.items()}
    save_tokens(splits, cpu, folder / "tokens.npz")
    return folder


def run(folder: Path, ranks: int, *options: str) -> subprocess.CompletedProcess:
    """The program to its end; with 0 ranks, in one process, with torch only."""
    start = [*TORCHRUN, str(ranks), "-m", "benchmarks.ladder"]
    start = start if ranks else [sys.executable, "-c", BARE]
    left = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    left |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1", "RANKBOOK_DATA": ""}
    return subprocess.run(
        [*start, "--tokens", "tokens.npz", "--batch", "4", "--repeats", "1", *options],
        env=left, cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(folder):
    ended = run(folder, 0, "--recipe", "sdpa", "--steps", "3", "--out", "alone.json")
    assert ended.returncode == 0, ended.stderr
    return json.loads((folder / "alone.json").read_text("utf-8"))


def test_one_process_with_torch_only(alone):
    (row,) = alone["ladder"]
    assert row["steps"] == 3 and row["samples"] == 12 and len(row["losses"]) == 3
    assert alone["command"].endswith("--recipe sdpa --steps 3 --out alone.json")
    assert alone["kind"] in ("CPU", "GPU") and alone["rows"][0]["row"] == "sdpa"


def test_two_ranks_train_as_one_process(alone, folder):
    options = ("--recipe", "sdpa", "--strategy", "fsdp2", "--steps", "3", "--out", "two.json")
    ended = run(folder, 2, *options)
    assert ended.returncode == 0, ended.stderr
    result = json.loads((folder / "two.json").read_text("utf-8"))
    (row,), (line,) = result["many"], result["rows"]
    assert row["losses"] == pytest.approx(alone["ladder"][0]["losses"], abs=1e-4)
    assert (row["ranks"], row["strategy"], line["ranks"]) == (2, "fsdp2", 2)
    parameters = sum(row["memory"].values()) / 16  # 4 + 4 + 8 bytes each; half of them here
    assert parameters == pytest.approx(row["parameters"] / 2, rel=0.02)
    assert ended.stdout.count("fsdp2") == 1  # rank 0 only


def test_a_batch_that_ranks_cannot_share_ends_all_with_one_sentence(folder):
    ended = run(folder, 2, "--recipe", "plain", "--steps", "1", "--batch", "3")
    assert ended.returncode != 0
    said = [line for line in ended.stderr.splitlines() if line.startswith("speed")]
    assert len(said) == 1, ended.stderr
    assert "a batch of 3 cannot be shared by 2 parts (2 ranks x 1 microbatches)" in said[0]
    assert "exitcode  : 2" in ended.stderr and "rankbook/programs" not in ended.stderr
