"""Where a run of the program stands: right while loaders read ahead, refused if it is another's."""

from pathlib import Path

import pytest

from rankbook.programs.elastic import run as elastic
from rankbook.training.checkpoint import CheckpointError
from rankbook.training.elastic import audit, read_events
from tests.distributed.elastic_ranks import train
from tests.distributed.launch import run_ranks

RUN = ["--samples", "14", "--global-batch", "4", "--save-every", "2"]  # epochs of 4 steps


def options(folder: Path, *more: str) -> list[str]:
    events = ["--events", str(folder / "events.jsonl")]
    return ["--checkpoint", str(folder / "kept"), *events, *RUN, *more]


def test_loaders_that_read_ahead_lose_and_repeat_nothing(tmp_path):
    """A process on each of 2 ranks; then none on 3."""
    for start, (ranks, workers, steps) in enumerate([(2, 1, 3), (3, 0, 8)]):
        (store := tmp_path / f"launch{start}").mkdir()
        more = ["--workers", str(workers), "--steps", str(steps)]
        run_ranks(train, store, ranks, options(tmp_path, *more))
    epochs = audit(read_events(tmp_path / "events.jsonl"), 14)
    assert list(epochs) == [0, 1] and all(epoch.exactly_once for epoch in epochs.values())


@pytest.fixture
def kept(tmp_path):
    """A folder with a run of one process that has ended."""
    assert elastic.main(options(tmp_path, "--steps", "3"))["step"] == 3
    return tmp_path


def resume(folder: Path, *more: str) -> elastic.ElasticRun:
    return elastic.prepare(elastic.read(options(folder, *more)))


def test_a_run_that_is_over_is_not_begun_again(kept, capsys):
    result = elastic.main(options(kept, "--steps", "3"))
    assert result["step"] == 3
    assert "on from step 3" in capsys.readouterr().out
    steps = [e for e in read_events(kept / "events.jsonl") if e["event"] == "step"]
    assert len(steps) == 3


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--samples", "15"], "of a run with samples 14, and this one has 15: the order of the"),
        (["--seed", "1"], "of a run with seed 0, and this one has 1"),
        (["--model", "lm", "--samples", "14", "--length", "4"], "saved with SGD optimizer"),
    ],
)
def test_another_run_in_the_same_folder_is_refused(kept, more, sentence):
    with pytest.raises(ValueError, match=sentence) as told:
        resume(kept, *more)
    assert "\n" not in str(told.value)


def test_a_folder_that_is_a_file_is_said_before_any_rank_waits(tmp_path):
    (tmp_path / "kept").write_text("no folder")
    with pytest.raises(CheckpointError, match="name a folder, not a file"):
        resume(tmp_path)


def test_a_save_that_fails_is_said_and_training_goes_on(tmp_path, monkeypatch, capsys):
    """All but the last: without that one the run would be lost."""
    run = resume(tmp_path, "--steps", "4")
    saves = []

    def refuse(step: int, state: dict) -> Path:
        saves.append(step)
        raise CheckpointError("the disk is full")

    monkeypatch.setattr(run.checkpoints, "save", refuse)
    with (
        elastic.PreemptionHandler() as notice,
        pytest.raises(CheckpointError, match="the disk is full"),
    ):
        elastic.train(run, notice)
    assert saves == [2, 4] and run.step == 4
    assert "step 2 is not saved: the disk is full" in capsys.readouterr().out
    failed = [e for e in read_events(tmp_path / "events.jsonl") if e["event"] == "save failed"]
    assert [(e["step"], e["why"]) for e in failed] == [
        (2, "the disk is full"),
        (4, "the disk is full"),
    ]


def test_the_rate_follows_the_ranks_only_where_it_is_asked_for(tmp_path):
    def rate(*more: str) -> float:
        run = resume(tmp_path, *more)
        return run.task.optimizer.param_groups[0]["lr"]

    assert rate("--lr", "0.1") == 0.1
    elastic.main(options(tmp_path, "--lr", "0.1", "--steps", "1"))
    assert rate("--lr", "0.2") == 0.2  # what is asked for now, not what was saved
