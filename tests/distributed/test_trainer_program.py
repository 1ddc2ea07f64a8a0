"""train_lm_trainer with and without torchrun: it trains alike, and refuses in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.data.embedded import prose

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ["-m", "rankbook.programs.train_lm_trainer"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
LINES = 60  # two ranks share the last batch without filling it up


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train_lm")
    lines = [line for line in prose()["train"].split("\n") if line.strip()][:LINES]
    (folder / "text.txt").write_text("\n".join(lines), "utf-8")
    (folder / "short.txt").write_text("one line\n\n \n", "utf-8")
    return folder


def run(folder: Path, ranks: int, options: str) -> subprocess.CompletedProcess:
    """The program to its end; with 0 ranks, in one process and without torchrun."""
    start = [*TORCHRUN, str(ranks)] if ranks else [sys.executable]
    left = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    left |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [*start, *PROGRAM, *options.split()],
        env=left, cwd=folder, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


def records(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def values(log: list[dict], name: str) -> list[float]:
    return [record[name] for record in log if name in record]


@pytest.mark.parametrize(
    ("ranks", "options", "sentence"),
    [
        (2, "--train-file gone.txt", "there is no file gone.txt on this machine"),
        (2, "--train-file short.txt", "short.txt has 1 samples (lines that are not blank), and 2"),
        (0, "--train-file text.txt --model no/such", "--model no/such is no folder with a causal"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(folder, ranks, options, sentence):
    ended = run(folder, ranks, options)
    assert ended.returncode != 0
    said = [line for line in ended.stderr.splitlines() if line.startswith("train_lm_trainer")]
    assert len(said) == 1 and sentence in said[0], ended.stderr
    assert "rankbook/programs" not in ended.stderr  # no traceback


@pytest.fixture(scope="module")
def alone(folder):
    options = "--train-file text.txt --valid-file short.txt --read first --steps 6 --log-every 1"
    ended = run(folder, 0, f"{options} --log-file alone.jsonl --output model")
    assert ended.returncode == 0, ended.stderr
    return ended, records(folder, "alone.jsonl")


def test_one_process_logs_and_says_what_it_does(alone, folder):
    ended, log = alone
    start = log[0]["start"]
    assert start["world size"] == 1 and start["nodes"] == 1
    assert start["bytes"]["text.txt"] == (folder / "text.txt").stat().st_size
    losses = values(log, "loss")
    assert len(losses) == 6 and losses[-1] < losses[0] - 0.5
    assert values(log, "samples") == [LINES]  # the text ends in step 4 of 6
    assert ended.stdout.count("step 6: validation loss") == 1
    assert ended.stderr.count("6/6  loss") == 1


def test_two_ranks_train_as_one_process(alone, folder):
    options = "--train-file text.txt --valid-file short.txt --read first --steps 6 --log-every 1"
    ended = run(folder, 2, f"{options} --log-file two.jsonl")
    assert ended.returncode == 0, ended.stderr
    log = records(folder, "two.jsonl")
    assert values(log, "loss") == pytest.approx(values(alone[1], "loss"), abs=1e-4)
    assert values(log, "valid_loss") == pytest.approx(values(alone[1], "valid_loss"), abs=1e-4)
    assert values(log, "samples") == [LINES]


def test_shares_with_workers_and_a_model_from_a_folder(alone, folder):
    """Every line once, though the last batches of ranks and workers are not full; it goes on."""
    options = "--workers 2 --accumulate 2 --steps 9 --log-every 1 --log-file shares.jsonl"
    ended = run(folder, 2, f"--train-file text.txt --model model {options}")
    assert ended.returncode == 0, ended.stderr
    log = records(folder, "shares.jsonl")
    assert set(values(log, "samples")) == {LINES}
    assert values(log, "loss")[0] < values(alone[1], "loss")[0] - 0.5  # the trained parameters
