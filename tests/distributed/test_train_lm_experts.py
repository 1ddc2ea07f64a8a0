"""train_lm with experts trains as one process does, on any mesh, and goes on on any other."""

import json
from pathlib import Path

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.test_train_lm import SMALL, TOLERANCE, torchrun
from tests.distributed.train_lm_ranks import logged, train_each

pytestmark = pytest.mark.long

KINDS = {
    "bias": "",
    "loss": "--balance loss",
    "dropping": "--balance none --capacity 1.0 --top-k 1 --experts 4",
}
MESHES = {
    2: [("bias", "ep=2"), ("loss", "tp=2 --experts 8"), ("dropping", "ep=2")],
    4: [
        ("bias", "dp=2,ep=2 --shard fsdp"), ("dropping", "pp=2,ep=2 --schedule zbv"),
        ("bias", "ep=2,tp=2"), ("loss", "ep=2,cp=2"),
    ],
    8: [("bias", "pp=2,dp=2,ep=2"), ("loss", "dp=2,ep=2,tp=2 --shard fsdp")],
}  # fmt: skip
LOAD = {"balance": 1e-3, "busiest": 0.05, "dropped": 1e-3}  # a choice of 512 and some is free
# Of the tokens of this seed, the nearest to choosing otherwise lacks 8e-6 of a probability, in
# training and in evaluation: rounding does not get there in three steps. Elsewhere it may, and then
# one token of the 512 that are evaluated has another expert and another loss, by up to 0.5 nats.
SEED = "--seed 3"
EVALUATED = 1e-3


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def records(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def runs(folder: Path, ranks: int, lines: list[str], cache: Path) -> list[list[dict]]:
    """By line of options: the records of the steps, then of the evaluations."""
    logs = [folder / f"{number}.jsonl" for number in range(len(lines))]
    words = [
        f"{SMALL} {SEED} {line} --log-file {log}" for line, log in zip(lines, logs, strict=True)
    ]
    run_ranks(train_each, folder, ranks, ranks, words, str(cache))
    return [[record for record in records(log) if "start" not in record] for log in logs]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory, cache):
    lines = [f"--mesh ep=1 --no-checkpoint --steps 3 {words}" for words in KINDS.values()]
    found = runs(tmp_path_factory.mktemp("one"), 1, lines, cache)
    return dict(zip(KINDS, found, strict=True))


def test_experts_are_balanced_by_what_was_asked_for(one_process):
    """The three runs are not the same one: what a mesh is compared with tells them apart."""
    bias, loss, dropping = (one_process[kind] for kind in KINDS)
    # at first experts give nothing, however many there are
    assert bias[0]["loss"] == loss[0]["loss"] == dropping[0]["loss"]
    for other in (loss, dropping):
        assert abs(bias[2]["loss"] - other[2]["loss"]) > 1e-4
    for first, *_ in (bias, loss):
        assert 1 < first["balance"] < 2 and 1 < first["busiest"] < 8 and "dropped" not in first
    assert 0 < dropping[0]["dropped"] < 0.5


@pytest.mark.parametrize("ranks", MESHES)
def test_every_mesh_trains_as_one_process(ranks, tmp_path, cache, one_process):
    lines = [
        f"--no-checkpoint --steps 3 {KINDS[kind]} --mesh {mesh}" for kind, mesh in MESHES[ranks]
    ]
    for (kind, mesh), found in zip(MESHES[ranks], runs(tmp_path, ranks, lines, cache), strict=True):
        right = one_process[kind]
        assert len(found) == len(right) >= 4
        for mine, expected in zip(found, right, strict=True):
            within = {"loss": TOLERANCE, "valid_loss": EVALUATED, "test_loss": EVALUATED, **LOAD}
            for name, tolerance in within.items():
                assert mine.get(name) == pytest.approx(expected.get(name), abs=tolerance), (
                    mesh, name, mine
                )  # fmt: skip


def test_a_run_goes_on_on_other_meshes(tmp_path, cache):
    """The biases of the routers go along, and what is divided comes together."""
    (right,) = runs(tmp_path, 1, ["--mesh ep=1 --no-checkpoint --steps 6"], cache)
    words = f"{SMALL} {SEED} --log-file {tmp_path}/run.jsonl"
    for ranks, line in {
        4: "--mesh dp=2,ep=2 --shard fsdp --steps 2",
        2: "--mesh ep=2 --steps 3 --resume",
        8: "--mesh pp=2,ep=4 --steps 5 --resume",
        1: "--mesh dp=1 --experts 8 --steps 6 --resume",
    }.items():
        folder = tmp_path / "ranks" / str(ranks)
        folder.mkdir(parents=True)
        run_ranks(train_each, folder, ranks, ranks, [f"{words} {line}"], str(cache))
    steps, assessed = logged(tmp_path / "run.jsonl")
    expected = {record["step"]: record["loss"] for record in right if "loss" in record}
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    for step, loss in steps.items():  # after more steps rounding may choose, for one token of 256
        tolerance = TOLERANCE if step <= 3 else EVALUATED
        assert loss == pytest.approx(expected[step], abs=tolerance), step
    assert assessed["test_loss"] == pytest.approx(right[-1]["test_loss"], abs=EVALUATED)


def test_experts_under_torchrun(tmp_path, cache):
    line = f"{SMALL} {SEED} --log-file run.jsonl --steps 2 --mesh ep=2 --evaluate-every 5"
    run = torchrun(2, line, tmp_path, cache)
    assert run.returncode == 0, run.stderr
    assert "mesh ep=2, 8 experts, 2 a token, from step 0 to 2" in run.stdout
    found, _ = logged(tmp_path / "run.jsonl")
    alone = line.replace("run.jsonl", "alone.jsonl").replace("ep=2", "ep=1")
    assert torchrun(1, alone, tmp_path, cache).returncode == 0
    assert found == pytest.approx(logged(tmp_path / "alone.jsonl")[0], abs=TOLERANCE)
    done = torchrun(1, line.replace("ep=2 --evaluate-every 5", "ep=1 --resume"), tmp_path, cache)
    assert done.returncode == 0 and "loss nan" not in done.stdout
    assert "8 experts, 2 a token, nothing left to train: 2 steps in all, and 2 are" in done.stdout
