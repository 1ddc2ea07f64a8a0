"""train_lm whose replicas train alone and meet: on meshes, with interruptions, by torchrun."""

import json

import pytest
import torch

from tests.distributed.launch import run_ranks
from tests.distributed.test_train_lm import TOLERANCE, cache, torchrun  # noqa: F401
from tests.distributed.train_lm_ranks import logged, train_each
from tests.distributed.train_lm_sync_ranks import loaded, trained

pytestmark = pytest.mark.long

SMALL = "--batch 16 --window 16 --evaluate-on 2"
# with AdamW's epsilon beside these gradients, the order of sums is seen: see test_train_lm


def train(folder, ranks, lines, cache):  # noqa: F811
    """Losses by step, and of evaluations, of each line, which names no log."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = [folder / f"{number}.jsonl" for number in range(len(lines))]
    words = [f"{SMALL} {line} --log-file {log}" for line, log in zip(lines, logs, strict=True)]
    run_ranks(train_each, folder, ranks, ranks, words, str(cache))
    return [logged(log) for log in logs]


def test_one_replica_that_meets_nobody_is_one_process(tmp_path, cache):  # noqa: F811
    lines = [f"--no-checkpoint --steps 6 --evaluate-every 3 {sync}" for sync in
             ("", "--sync local:3", "--sync diloco:3", "--sync diloco:3 --outer-lr 1 "
              "--outer-momentum 0")]  # fmt: skip
    every, local, diloco, plain = train(tmp_path, 1, lines, cache)
    assert local[0] == pytest.approx(every[0], abs=TOLERANCE)
    assert local[1] == pytest.approx(every[1], abs=TOLERANCE)
    assert plain[0] == pytest.approx(local[0], abs=TOLERANCE)
    # until the first meeting an outer step changes nothing, and what is evaluated is after it
    assert [diloco[0][step] for step in (1, 2, 3)] == [every[0][step] for step in (1, 2, 3)]
    assert diloco[0][4] != pytest.approx(every[0][4], abs=1e-3)


def test_replicas_may_be_cut_among_ranks(tmp_path, cache):  # noqa: F811
    line = "--no-checkpoint --steps 5 --evaluate-every 4 --sync diloco:2 --mesh"
    (right,) = train(tmp_path / "two", 2, [f"{line} dp=2"], cache)
    (alone,) = train(tmp_path / "every", 2, [f"{line.replace('diloco:2', 'every')} dp=2"], cache)
    assert right[0][5] != pytest.approx(alone[0][5], abs=1e-3)
    meshes = "dp=2,tp=2", "pp=2,dp=2", "dp=2,cp=2"
    for mesh, found in zip(
        meshes, train(tmp_path / "four", 4, [f"{line} {mesh}" for mesh in meshes], cache),
        strict=True,
    ):  # fmt: skip
        assert found[0] == pytest.approx(right[0], abs=TOLERANCE), mesh
        assert found[1] == pytest.approx(right[1], abs=TOLERANCE), mesh


@pytest.mark.parametrize("stop", [1, 3, 4, 5])
def test_going_on_gives_the_same_bits_wherever_it_stopped(tmp_path, cache, stop):  # noqa: F811
    """Three steps alone, twice and one more: before, at and after a meeting."""
    line = f"{SMALL} --sync diloco:3 --evaluate-every 2"
    straight, first, second = (tmp_path / name for name in ("straight", "first", "second"))
    for folder in (straight, first, second):
        folder.mkdir()
    ended = run_ranks(
        trained, straight, 2, f"{line} --steps 7 --log-file {straight}/run.jsonl", 2, str(cache)
    )
    words = f"{line} --log-file {first}/run.jsonl"
    run_ranks(train_each, first, 2, 2, [f"{words} --steps {stop}"], str(cache))
    again = run_ranks(trained, second, 2, f"{words} --steps 7 --resume", 2, str(cache))
    for one, other in zip(ended, again, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(again[0]["own"], again[1]["own"])  # one step after the last meeting
    assert torch.equal(again[0]["agreed"], again[1]["agreed"])
    records, right = (read(folder / "run.jsonl") for folder in (first, straight))
    assert records == {step: right[step] for step in records} and sorted(records) == [*range(1, 8)]


def read(log):
    """What a run says of each step, but for its pace."""
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return {
        r["step"]: {name: r[name] for name in ("loss", "norm", "lr", "sent")}
        for r in records if "loss" in r
    }  # fmt: skip


def test_it_goes_on_with_more_replicas_with_fewer_and_cut_otherwise(tmp_path, cache):  # noqa: F811
    """Stopped two steps after a meeting."""
    first, line = tmp_path / "first", f"{SMALL} --sync diloco:3 --log-file {tmp_path}/run.jsonl"
    first.mkdir()
    two = run_ranks(trained, first, 2, f"{line} --steps 5", 2, str(cache))
    for ranks, mesh in ((4, "dp=4"), (1, "dp=1"), (2, "dp=2")):
        folder = tmp_path / mesh
        folder.mkdir()
        work = f"{line} --resume --steps 9 --mesh {mesh}", ranks, str(cache)
        for replica, found in enumerate(run_ranks(loaded, folder, ranks, *work)):
            old = two[replica % 2]
            assert all(torch.equal(found[n], old[n]) for n in old if n != "own"), (mesh, replica)
            new = replica >= 2  # it begins with what all agreed on
            assert torch.equal(found["own"], old["agreed" if new else "own"]), (mesh, replica)
    (tmp_path / "copy").mkdir()
    # to the bit on two, and on a replica of two ranks but for the rounding
    right = run_ranks(trained, tmp_path / "copy", 2, f"{line} --resume --steps 5", 2, str(cache))
    assert torch.equal(right[1]["own"], two[1]["own"])
    for number, (ranks, mesh) in enumerate(((4, "dp=2,tp=2"), (4, "dp=4"), (1, "dp=1"))):
        words = [f"{line} --resume --steps {6 + number} --mesh {mesh}"]
        folder = tmp_path / f"on{number}"
        folder.mkdir()
        run_ranks(train_each, folder, ranks, ranks, words, str(cache))
    losses, _ = logged(tmp_path / "run.jsonl")
    assert sorted(losses) == [*range(1, 9)] and losses[8] < losses[1] - 0.3


def test_by_torchrun(tmp_path, cache):  # noqa: F811
    line = "--batch 16 --window 16 --log-file run.jsonl --steps 4 --sync diloco:2"
    run = torchrun(2, line, tmp_path, cache)
    assert run.returncode == 0, run.stderr
    assert "mesh dp=2, replicas meet after 2 steps alone (DiLoCo), from step 0 to 4" in run.stdout
    records = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    options = records[0]["start"]["options"]
    assert (options["sync"], options["outer_lr"], options["outer_momentum"]) == (
        "diloco:2", 0.7, 0.9,
    )  # fmt: skip
    sent = [record["sent"] for record in records[1:]]
    assert sent[0] == 0 < sent[1] == sent[2] and sent[3] == 2 * sent[1]
