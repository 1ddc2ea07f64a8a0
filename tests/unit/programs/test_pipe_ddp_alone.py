"""The program in this process, as the only rank: how runs begin and go on, and bfloat16."""

import json
import shutil

import pytest
import torch
import torch.distributed as dist

from rankbook.programs import ending
from rankbook.programs.pipe_ddp import run as pipe_ddp

SMALL = "--batch 4 --window 8 --stages 2 --evaluate-on 2 --log-every 1"


@pytest.fixture
def run(tmp_path, tmp_path_factory, monkeypatch):
    """Run the program with options; {} in them is a new folder. Gives what it logged."""
    cache = tmp_path_factory.getbasetemp() / "ids"
    for name, value in {
        "WORLD_SIZE": "1", "RANK": "0", "RANKBOOK_DATA": "", "RANKBOOK_CACHE": str(cache),
        "HF_HUB_OFFLINE": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def init(backend, timeout):
        store = tmp_path_factory.mktemp("group") / "store"
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
        return torch.device("cpu")

    def fail(error, program):
        raise error

    monkeypatch.setattr(pipe_ddp, "init", init)
    monkeypatch.setattr(ending, "fail", fail)

    def go(options: str) -> list[dict]:
        log = tmp_path_factory.mktemp("log") / "log.jsonl"
        try:
            pipe_ddp.main(f"{SMALL} --log-file {log} {options.format(tmp_path)}".split())
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()]

    return go


def losses(log: list[dict]) -> list[float]:
    return [record["loss"] for record in log if "loss" in record]


def test_bfloat16_is_near_float32_and_not_equal(run):
    low, full = (losses(run(f"--steps 2 {option}")) for option in ("--bf16", ""))
    assert low == pytest.approx(full, abs=0.05) and low != full


@pytest.mark.slow
def test_a_run_that_ended_before_it_saved_begins_again(run, tmp_path):
    whole = losses(run("--steps 2"))
    run("--steps 1 --checkpoint {}/run")
    for name in ("latest", "best"):
        shutil.rmtree(tmp_path / "run" / name)
    assert losses(run("--steps 2 --checkpoint {}/run --resume")) == whole


def test_a_run_that_is_done_is_only_tested_again(run):
    first = run("--steps 1 --checkpoint {}/run")
    again = run("--steps 1 --checkpoint {}/run --resume")
    assert losses(again) == []
    assert again[-1]["test_loss"] == first[-1]["test_loss"]


@pytest.mark.slow
def test_the_best_model_is_tested_not_the_last(run):
    """A learning rate that ruins the model after the first validation."""
    options = "--steps 4 --evaluate-every 1 --lr 30 --warm-up 400 --checkpoint {}/run"
    log = run(options)
    valid = [record["valid_loss"] for record in log if "valid_loss" in record]
    assert valid[-1] > min(valid) + 1
    assert log[-1]["model"] == "best" and log[-1]["test_loss"] < valid[-1] - 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--checkpoint {}/run --resume", "holds no run to resume; leave out --resume to begin one"),
        ("--window 20000", "rows of .* tokens have no window of 20000"),
        ("--batch 4000 --microbatches 4", "a text of .* tokens cannot fill 4000 rows"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(run, options, sentence):
    with pytest.raises(ValueError, match=sentence) as told:
        run(f"--steps 1 {options}")
    assert "\n" not in str(told.value)
