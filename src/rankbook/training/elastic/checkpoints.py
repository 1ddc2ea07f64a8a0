"""Checkpoints in a folder: written whole, found again by checksum, a few of them kept."""

import contextlib
import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rankbook.training.elastic.plain import check_plain, load_plain, save_plain, sha256
from rankbook.training.elastic.whole import hidden, write_whole


class CheckpointError(OSError):
    """A checkpoint cannot be written or read: one sentence that says where, why, what to do."""


class Damaged(ValueError):
    """What a checkpoint holds is not what was written."""


class Kept(NamedTuple):
    """A good checkpoint: what was saved, after which optimizer step, and where it lies."""

    step: int
    state: dict
    path: Path


class Checkpoints:
    """The checkpoints of one run in `folder`, each one plain torch file; for one process.

    A file is called ``step-00000040-<16 digits>.pt``. The digits begin the sha256 of its
    contents: the rename that makes it visible also makes it valid. ``torch.load`` reads it.
    keep: how many to keep, at least 1. say: called with one line for each that is passed over.
    """

    ending = ".pt"
    collective = False  # whether `save` is called on all ranks

    def __init__(self, folder: Path, keep: int = 3, say: Callable[[str], object] = print) -> None:
        if keep < 1:
            raise ValueError(f"keep {keep} would leave no checkpoint; use 1 or more")
        self.folder, self.keep, self.say = Path(folder), keep, say
        self._bad: set[Path] = set()

    def check(self) -> None:
        """Make the folder and write in it: CheckpointError now, not after hours of training."""
        with told(f"no checkpoint can be saved in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / "writable", lambda file: None).unlink(missing_ok=True)

    def save(self, step: int, state: dict) -> Path:
        """Write `state`, that after optimizer step `step`; then remove what is too old.

        state: tensors, numbers, strings, in dicts, lists and tuples. Raises CheckpointError if it
        cannot be written (those before are still there then), and ValueError if something in it
        could not be read back.
        """
        check_plain(state)

        def write(file: BinaryIO) -> str:
            return self.name(step, save_plain(state, file))

        with told(f"step {step} was not saved in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.remove_leftovers()
            path = write_whole(self.folder / f"step-{step:08}", write)
        self.prune(step, path)
        return path

    def newest(self) -> Kept | None:
        """The newest good one, or None; those that are torn, cut or changed are passed over.

        Raises CheckpointError if the folder cannot be read, or only another kind has written in it.
        """
        paths = self.paths()
        if not paths and self._named(kind=r"(\.pt)?"):
            how = "sharded" if self.ending else "each in one file"
            raise CheckpointError(
                f"the checkpoints in {self.folder} are {how}, so this run would begin anew; go on "
                "with that kind, or name another folder"
            )
        for path in paths:
            try:
                return Kept(step_of(path), self.read_checked(path), path)
            except (ValueError, OSError) as trouble:
                if isinstance(trouble, Damaged):
                    self._bad.add(path)
                why = getattr(trouble, "strerror", None) or trouble
                self.say(f"checkpoint {path.name} is passed over: {why}")
        return None

    def wait(self) -> None:
        """Return when the last save is on the disk: here it always is."""

    def paths(self) -> list[Path]:
        """All checkpoints in the folder, the newest first; nothing of them is read."""
        found = self._named(kind=re.escape(self.ending))
        return sorted(found, key=lambda path: (step_of(path), path.name), reverse=True)

    def _named(self, kind: str) -> list[Path]:
        """What is called as a checkpoint, with an ending of this pattern."""
        with told(f"the checkpoints in {self.folder} cannot be listed"):
            inside = list(self.folder.iterdir()) if self.folder.exists() else []
        pattern = re.compile(r"step-\d{8,}-[0-9a-f]{16}" + kind)
        return [path for path in inside if pattern.fullmatch(path.name)]

    def name(self, step: int, checksum: str) -> str:
        return f"step-{step:08}-{checksum[:16]}{self.ending}"

    def read(self, path: Path) -> dict:
        """The state in `path`, which is known to be good."""
        return load_plain(path)

    def read_checked(self, path: Path) -> dict:
        """The state in `path`. Raises Damaged, another ValueError if it is none, or OSError."""
        check_sum(path, path)
        return self.read(path)

    def prune(self, step: int, newest: Path) -> None:
        """Remove all but `keep` of what is up to `step`, of which `newest` was just written.

        A later step can only be another process's, or damaged: it is left until it is overtaken.
        """
        before = [p for p in self.paths() if step_of(p) <= step and p != newest]
        good = [p for p in before if step_of(p) < step and p not in self._bad]
        for path in before:
            if path not in good[: self.keep - 1]:
                self._remove(path)

    def remove_leftovers(self) -> None:
        """Remove what killed writers left. A run writes one at a time: none of it is wanted."""
        for path in self.folder.glob(".step-*.tmp"):
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint, of which no part is seen under its name meanwhile."""
        try:
            if path.is_dir():
                path = path.rename(hidden(path))
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            self.say(f"checkpoint {path.name} could not be removed: {error.strerror}")


def step_of(path: Path) -> int:
    return int(path.name.split("-")[1])


def check_sum(path: Path, file: Path) -> None:
    """Raise Damaged if `file` has not the checksum that stands in the name `path`."""
    if sha256(file)[:16] != path.name.split("-")[2][:16]:
        raise Damaged("its checksum differs, so it was torn, cut or changed")


_SPACE = "free some space there or name a folder elsewhere"
_FOLDER = "name a folder, not a file"
_RIGHTS = "name a folder that this process may read and write"
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _SPACE),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), _FOLDER),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
}


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Say an OSError in one sentence: `what` went wrong, why, and what to do if that is known."""
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        why = error.strerror.lower() if error.strerror else f"{error}"
        cure = _CURES.get(error.errno)
        raise CheckpointError(f"{what}: {'; '.join(filter(None, (why, cure)))}") from error
