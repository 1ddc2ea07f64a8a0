"""Two worlds and one folder: the newest saves, and an older one is refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn

from rankbook.core import atomic
from rankbook.training.checkpoint import (
    Checkpoints,
    ShardedCheckpoints,
    Superseded,
    capture,
    fence,
    single,
)

KINDS = [Checkpoints, ShardedCheckpoints]


def state() -> dict:
    model = nn.Linear(2, 2)
    return capture(model, torch.optim.SGD(model.parameters(), 0.1), {"epoch": 0, "sample": 0})


def save(checkpoints, step: int) -> None:
    checkpoints.save(step, state())
    checkpoints.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_world_is_refused_and_the_newer_saves(tmp_path, kind):
    old, new = kind(tmp_path), kind(tmp_path)
    old.take_over()
    save(old, 1)
    new.take_over()
    with pytest.raises(Superseded, match="another world has taken over"):
        save(old, 2)
    save(new, 2)
    assert [path.name[:15] for path in fence.gates(tmp_path)] == [".world-00000002"]
    assert [path.name[:13] for path in new.paths()] == ["step-00000002", "step-00000001"]
    assert kind(tmp_path).newest().step == 2  # one who only reads takes nothing over
    save(new, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_world_nothing_is_refused(tmp_path, kind):
    one, other = kind(tmp_path), kind(tmp_path)
    for step in (1, 2):
        save(one, step)
        save(other, step)
    assert not fence.gates(tmp_path)


@pytest.mark.parametrize("where", ["while it is written", "just before its rename"])
def test_a_world_that_is_stopped_in_a_save_cannot_end_it(tmp_path, where):
    """However long it stands still between two lines: the rename itself is refused."""
    old, new = Checkpoints(tmp_path), Checkpoints(tmp_path)
    old.take_over()
    name = "save_plain" if "while" in where else "publish"
    then = getattr(single, name)

    def late(*arguments):
        new.take_over()  # the other world begins now, and this one goes on
        return then(*arguments)

    with mock.patch.object(single, name, late), pytest.raises(Superseded):
        save(old, 1)
    assert not new.paths() and not list(tmp_path.rglob("*step*"))


def test_worlds_that_begin_at_once_get_numbers_of_their_own_and_one_stays(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: fence.take_over(tmp_path), range(24)))
    assert len(set(found)) == 24
    assert fence.gates(tmp_path) == [max(found)]
    assert not list(tmp_path.glob("..world*"))


def test_what_a_killed_world_left_goes_with_its_gate(tmp_path):
    gate = fence.take_over(tmp_path)
    (gate / ".step-00000003.12345678.tmp").touch()
    fence.take_over(tmp_path)
    assert [path.name[:15] for path in tmp_path.rglob("*")] == [".world-00000002"]


def test_a_missing_file_that_is_not_the_gate_is_told_as_it_is(tmp_path):
    gate = fence.take_over(tmp_path)
    with pytest.raises(FileNotFoundError), fence.fenced(gate, tmp_path):
        (tmp_path / "nothing").stat()
    with pytest.raises(FileNotFoundError), fence.fenced(tmp_path, tmp_path):
        (tmp_path / "nothing").stat()


def test_the_rename_that_shows_a_checkpoint_is_on_the_disk(tmp_path):
    gate, synced = fence.take_over(tmp_path), []
    (gate / "step").touch()
    with mock.patch.object(fence, "sync_folder", synced.append):
        assert fence.publish(gate / "step", tmp_path) == tmp_path / "step"
    assert synced == [tmp_path] and atomic.hidden(Path("x")).name.startswith(".x.")
