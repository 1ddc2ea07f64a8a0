"""Checkpoints of one process: the newest good one is found, whatever happened to the others."""

import io
import resource
import signal
from functools import partial
from pathlib import Path

import pytest
import torch

from rankbook.training.checkpoint import CheckpointError, Checkpoints, ShardedCheckpoints
from rankbook.training.checkpoint.errors import Damaged
from rankbook.training.checkpoint.plain import save_plain, sha256
from tests.unit.training.checkpoint.saving_faults import (
    begin_child,
    disk,
    end_of,
    in_child,
    killed_at,
    killed_at_byte,
    names,
    read_only,
    same,
)


def state_of(step: int, size: int = 20) -> dict:
    """A small state like that of a run; another one for each step."""
    moments = {"step": torch.tensor(1.0 * step), "exp_avg": torch.full((size,), 0.5 * step)}
    return {
        "model": {"weight": torch.full((size,), 1.0 * step)},
        "optimizer": {"state": {0: moments}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "position": {"epoch": 0, "sample": step},
        "rng": [(1, None, b"x", True)],
    }


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def two(tmp_path, said) -> Checkpoints:
    """Two checkpoints, of steps 1 and 2, in a folder that did not exist."""
    checkpoints = Checkpoints(tmp_path / "a" / "b", say=said.append)
    assert checkpoints.newest() is None
    for step in (1, 2):
        checkpoints.save(step, state_of(step))
        path = checkpoints.paths()[0]
        assert path.parent == checkpoints.folder and path.name.startswith(f"step-0000000{step}-")
    return checkpoints


def test_what_was_saved_last_comes_back_to_the_bit(two, said):
    saved = two.newest()
    assert saved.step == 2 and same(saved.state, state_of(2)) and not said
    assert same(
        torch.load(saved.path, weights_only=True), saved.state
    )  # nothing of ours is needed to read it


def test_the_same_state_is_the_same_file(two):
    path = two.newest().path
    two.save(2, state_of(2))
    assert two.paths()[0] == path and len(two.paths()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("change", ["cut", "flip"])
def test_a_file_that_is_cut_or_changed_anywhere_is_passed_over(two, said, change):
    path = two.newest().path
    good = path.read_bytes()
    for position in range(len(good)):
        bad = bytearray(good[:position] if change == "cut" else good)
        if change == "flip":
            bad[position] ^= 1 << position % 8
        path.write_bytes(bad)
        with pytest.raises(Damaged):
            two.read_checked(path)
        if position % 100 == 0:
            kept = two.newest()
            assert kept.step == 1 and same(kept.state, state_of(1)), position
            told = f"checkpoint {path.name} is passed over: its checksum differs, so it was"
            assert said.pop().startswith(told) and not said
    path.write_bytes(good)
    assert two.newest().step == 2


@pytest.mark.parametrize("kind", [Checkpoints, ShardedCheckpoints])
def test_a_run_of_which_nothing_is_whole_is_not_begun_anew(tmp_path, said, kind):
    """Whoever asks for the newest has lost the run, and has to know."""
    checkpoints = kind(tmp_path, say=said.append)
    for step in (1, 2):
        checkpoints.save(step, state_of(step))
        checkpoints.wait()
    for path in checkpoints.paths():
        file = max(path.rglob("*.distcp")) if path.is_dir() else path
        if "00002-" in path.name:
            file.write_bytes(file.read_bytes()[:-1])  # cut
        else:
            file.unlink() if path.is_dir() else file.write_bytes(b"")  # or missing
    with pytest.raises(CheckpointError) as told:
        checkpoints.newest()
    oldest = checkpoints.paths()[-1].name
    assert f"no checkpoint in {tmp_path} is whole (of {oldest}: its " in str(told.value)
    assert str(told.value).endswith("from a copy, or move them away to begin anew")
    assert len(said) == 2 and "\n" not in str(told.value)
    for path in checkpoints.paths():
        path.rename(tmp_path / "away")
        (tmp_path / "away").rename(tmp_path / f"copy of {path.name}")
    assert checkpoints.newest() is None


def test_a_damaged_one_is_removed_with_the_next_save(two):
    path = two.newest().path
    path.write_bytes(b"")
    two.newest()
    assert path.exists()  # somebody may want to look at it
    two.keep = 2
    two.save(3, state_of(3))
    assert not path.exists()  # and does not count as one of the two
    assert [p.name[:13] for p in two.paths()] == ["step-00000003", "step-00000001"]


def file_size() -> int:
    """How many bytes the torch file of step 2 has."""
    save_plain(state_of(2), file := io.BytesIO())
    return len(file.getvalue())


@pytest.mark.slow
def test_a_process_killed_at_any_byte_leaves_the_one_before(two, said):
    one = Checkpoints(two.folder.parent / "one", say=said.append)
    one.save(1, state_of(1))
    size = file_size()
    for position in sorted({1, 2, 63, 64, 65, size - 1, size, *range(1, size, size // 25)}):
        with killed_at_byte(position):
            assert in_child(partial(one.save, 2, state_of(2))) == -signal.SIGKILL
        growing = [name for name in names(one.folder) if name.startswith(".")]
        assert len(growing) == 1, position  # those before it were cleared away
        assert (one.folder / growing[0]).stat().st_size == position
        assert one.newest().step == 1 and same(one.newest().state, state_of(1))
    one.save(2, state_of(2))
    assert len(names(one.folder)) == 2 and not said


def test_what_a_rank_left_that_was_killed_in_its_check_goes_with_the_next_save(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    with killed_at("replace", 1, after=False):
        assert in_child(checkpoints.check) == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(".writable.")
    checkpoints.save(1, state_of(1))
    assert left not in names(tmp_path) and checkpoints.newest().step == 1


MOMENTS = [("fsync", 1), ("replace", 1), ("fsync", 2)]  # of the file, its name, the folder


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("function,call", MOMENTS)
def test_a_process_killed_between_two_steps_leaves_the_old_or_the_new(
    tmp_path, function, call, after
):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state_of(1))
    with killed_at(function, call, after):
        assert in_child(partial(checkpoints.save, 2, state_of(2))) == -signal.SIGKILL
    renamed = (function, call, after) > ("replace", 1, False) or (function, call) == ("fsync", 2)
    kept = checkpoints.newest()
    assert kept.step == (2 if renamed else 1) and same(kept.state, state_of(kept.step))


def test_old_ones_are_removed_but_never_the_last_good_one(tmp_path, said):
    checkpoints = Checkpoints(tmp_path, keep=2, say=said.append)
    for step in range(1, 6):
        checkpoints.save(step, state_of(step))
    assert [path.name[:13] for path in checkpoints.paths()] == ["step-00000005", "step-00000004"]
    for path in checkpoints.paths():
        path.write_bytes(b"torn")
    checkpoints.save(3, state_of(3))  # after both were found damaged, or before
    assert checkpoints.newest().path == checkpoints.paths()[2] and len(said) == 2
    checkpoints.save(5, state_of(5))
    assert [path.name[:13] for path in checkpoints.paths()] == ["step-00000005", "step-00000003"]
    with pytest.raises(ValueError, match="keep 0 would leave no checkpoint"):
        Checkpoints(tmp_path, keep=0)


def test_other_files_are_left_alone(two):
    others = ["step-1.pt", "step-00000009-0123456789abcdef.pt.bak", "notes.txt", "epoch-3.pt"]
    for name in others:
        (two.folder / name).write_text("mine")
    two.save(3, state_of(3))
    assert two.newest().step == 3 and len(two.paths()) == 3
    assert set(others) < set(names(two.folder))


def test_a_folder_of_another_kind_is_not_taken_for_an_empty_one(two):
    told = r"the checkpoints in .*/b are each in one file, so this run would begin anew; go on with"
    with pytest.raises(CheckpointError, match=told):
        ShardedCheckpoints(two.folder).newest()


def test_several_processes_may_check_a_folder_at_once(tmp_path):
    def check():
        for _ in range(200):
            Checkpoints(tmp_path / "new").check()

    children = [begin_child(check) for _ in range(3)]
    assert [end_of(child) for child in children] == [0, 0, 0]
    assert names(tmp_path / "new") == []


def test_steps_of_nine_digits_come_after_those_of_eight(two):
    two.save(100_000_000, state_of(3))
    two.save(99_999_999, state_of(4))
    assert two.newest().step == 100_000_000


# a disk that takes no more


def full(checkpoints: Checkpoints, said: list[str]) -> None:
    """A save that does not fit is one sentence; what is there stays; the next that fits is good."""
    checkpoints.save(1, state_of(1))
    checkpoints.wait()
    with pytest.raises(CheckpointError, match=r"step 2 was not saved in .*: no space left"):
        checkpoints.save(2, state_of(2, size=300_000))
        checkpoints.wait()
    kept = checkpoints.newest()
    assert kept.step == 1 and not said
    checkpoints.save(3, state_of(3))
    checkpoints.wait()
    assert checkpoints.newest().step == 3 and not said
    assert not [name for name in names(checkpoints.folder) if name.startswith(".")]


@pytest.mark.parametrize("kind", [Checkpoints, ShardedCheckpoints])
def test_a_full_disk_is_one_sentence_and_no_loss(tmp_path, said, kind):
    with disk(tmp_path / "disk", kilobytes=512) as folder:
        full(kind(folder, say=said.append), said)


def limited(kind: type[Checkpoints], folder: Path) -> None:
    """The same where nothing can be mounted: files of this process may have 8 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**13, 2**13))
    checkpoints = kind(folder)
    checkpoints.save(1, state_of(1))
    checkpoints.wait()
    with pytest.raises(CheckpointError, match=r"step 2 was not saved in .*: file too large"):
        checkpoints.save(2, state_of(2, size=5000))
        checkpoints.wait()
    assert checkpoints.newest().step == 1


def test_a_file_that_may_not_grow_is_one_sentence_and_no_loss(tmp_path):
    assert in_child(partial(limited, Checkpoints, tmp_path)) == 0


def test_a_disk_that_is_read_only_is_one_sentence(tmp_path, said):
    with disk(tmp_path / "disk", kilobytes=512) as folder:
        checkpoints = Checkpoints(folder, say=said.append)
        checkpoints.save(1, state_of(1))
        read_only(folder)
        for attempt in (checkpoints.check, partial(checkpoints.save, 2, state_of(2))):
            with pytest.raises(CheckpointError, match=r"saved in .*: read-only file system; name"):
                attempt()
        assert checkpoints.newest().step == 1


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    checkpoints = Checkpoints(tmp_path / "file")
    attempts = (checkpoints.check, partial(checkpoints.save, 1, state_of(1)), checkpoints.newest)
    for attempt in attempts:
        with pytest.raises(CheckpointError, match=r"/file.*; name a folder, not a file$"):
            attempt()


def test_a_folder_is_checked_before_training_and_left_empty(tmp_path):
    Checkpoints(tmp_path / "new").check()
    assert names(tmp_path / "new") == []


# what may stand in a checkpoint


class Anything:
    pass


@pytest.mark.parametrize(
    "extra,sentence",
    [
        ({"a": [1, Anything()]}, r"state\['a'\]\[1\] is a .*Anything, which is not read back"),
        ({"a": {"b": print}}, r"state\['a'\]\['b'\] is a builtins.builtin_function"),
        ({"a": {Anything: 1}}, r"a key of state\['a'\] is a builtins.type"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(two, extra, sentence):
    with pytest.raises(ValueError, match=sentence):
        two.save(3, state_of(3) | extra)
    assert two.newest().step == 2


def test_a_file_with_a_class_in_it_is_not_read(two, said):
    torch.save(state_of(9) | {"a": Anything()}, two.folder / "evil")
    evil = two.folder / two.name(9, sha256(two.folder / "evil"))
    (two.folder / "evil").rename(evil)
    assert two.newest().step == 2
    refusal = "torch.load(weights_only=True) refuses what is in it"
    assert said == [f"checkpoint {evil.name} is passed over: {refusal}"]


# in a folder each


@pytest.fixture
def folders(tmp_path, said) -> ShardedCheckpoints:
    """Two sharded checkpoints, of steps 1 and 2, written by one process."""
    checkpoints = ShardedCheckpoints(tmp_path, keep=2, say=said.append)
    for step in (1, 2):
        checkpoints.save(step, state_of(step))
    checkpoints.wait()
    return checkpoints


def test_a_change_in_any_file_of_a_folder_is_noticed(folders, said):
    path = folders.newest().path
    files = {"__0_0.distcp", ".metadata", "contents.json", "plain.pt"}
    assert set(names(path)) == files
    for name in files:
        good = (path / name).read_bytes()
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 4
        for bad in (flipped, good[:-1], b"", b"{}", None):
            (path / name).unlink()
            if bad is not None:
                (path / name).write_bytes(bad)
            assert folders.newest().step == 1
            assert said.pop().startswith(f"checkpoint {path.name} is passed over: ")
            (path / name).write_bytes(good)
    assert folders.newest().step == 2 and not said


def test_old_folders_are_removed_as_a_whole(folders):
    folders.save(3, state_of(3))
    folders.wait()
    assert [name[:13] for name in names(folders.folder)] == ["step-00000002", "step-00000003"]
