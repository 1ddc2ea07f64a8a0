"""Checkpoints in a folder: written whole, found again by checksum, a few of them kept.

What all kinds have in common. A kind says how one is written, and how it is read.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from rankbook.core.agreement import agree, broadcast_from_rank0, rank_and_world
from rankbook.core.atomic import hidden, write_atomic
from rankbook.training.checkpoint import fence
from rankbook.training.checkpoint.errors import CheckpointError, Damaged, explain_oserror
from rankbook.training.checkpoint.plain import sha256
from rankbook.training.checkpoint.state import restore


@dataclass(frozen=True)
class Saved:
    """A good checkpoint: what was saved, after which optimizer step, and where it lies."""

    step: int
    state: dict
    path: Path

    def load_into(
        self,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        scheduler: Any = None,
        scaler: Any = None,
    ) -> dict:
        """Put back all that was captured, and return its position; on all ranks.

        As `restore` does, with the same errors: the model alone if there is nothing else.
        """
        return restore(self.state, model, optimizer, scheduler, scaler)


class Store:
    """The checkpoints of one run in `folder`, which all ranks see; the same on all ranks.

    Each is called ``step-00000040-<16 digits>``, and an ending. The digits begin the sha256 of
    its contents, or of a table of their checksums: the rename that makes it visible also makes it
    valid. keep: how many to keep, at least 1. say: called with one line for each that is passed
    over, on rank 0.
    """

    ending: str
    kind: type[Saved] = Saved

    def __init__(
        self, folder: Path | str, keep: int = 3, say: Callable[[str], object] = print
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep {keep} would leave no checkpoint; use 1 or more")
        self.folder, self.keep, self.say = Path(folder), keep, say
        self.gate = self.folder  # where checkpoints grow: `fence`
        self._bad: set[Path] = set()

    def take_over(self) -> None:
        """Be the one world that saves in the folder; on all ranks, before `newest`.

        From then on a save of a world that began earlier raises `fence.Superseded`. For who trains:
        who only reads must not call it. Raises CheckpointError, on all ranks.
        """

        def take() -> Path:
            with explain_oserror(f"no world can begin in {self.folder}"):
                return fence.take_over(self.folder)

        self.gate = broadcast_from_rank0(take)

    def save(self, step: int, state: dict) -> None:
        """Write `state`, that after optimizer step `step`, then remove what is too old.

        On all ranks. state: as `capture` or `capture_stages` makes it. Raises, on all ranks,
        CheckpointError if it cannot be written (those before are still there then), and
        ValueError if something in it could not be read back.
        """
        raise NotImplementedError

    def wait(self) -> None:
        """Return when the last save is on the disk. Raises CheckpointError if it failed."""

    def newest(self) -> Saved | None:
        """The newest good one, the same on all ranks, or None if there is none; on all ranks.

        Rank 0 looks, and passes over those that are torn, cut or changed; the others read the one
        it found. Raises CheckpointError, on all ranks, if the folder cannot be read, if none in it
        is good, if only another kind has written in it, and if a rank sees another folder than rank
        0.
        """
        here: list[Saved] = []

        def look() -> tuple[str, list[str]]:
            paths = self.paths()
            if found := self._newest_good(paths):
                here.append(found)
            return found.path.name if found else "", [path.name for path in paths]

        name, names = broadcast_from_rank0(look)
        if rank_and_world()[0]:
            return agree(lambda: self._same(name, names))
        return agree(lambda: here[0] if here else None)

    def check(self) -> None:
        """Make the folder and write in it: CheckpointError now, not after hours of training."""
        with explain_oserror(f"no checkpoint can be saved in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self.folder / "writable", lambda file: None).unlink(missing_ok=True)

    def paths(self) -> list[Path]:
        """All checkpoints in the folder, the newest first; nothing of them is read."""
        found = self._named(kind=re.escape(self.ending))
        return sorted(found, key=lambda path: (step_of(path), path.name), reverse=True)

    def name(self, step: int, checksum: str) -> str:
        """What a checkpoint with this sha256 is called."""
        return f"step-{step:08}-{checksum[:16]}{self.ending}"

    def read(self, path: Path) -> dict:
        """The state in `path`, which is known to be good."""
        raise NotImplementedError

    def read_checked(self, path: Path) -> dict:
        """The state in `path`. Raises Damaged, another ValueError if it is none, or OSError."""
        raise NotImplementedError

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
        """Remove what killed writers left. A run writes one at a time: none of it is wanted.

        That is also what `check` was writing, which every rank has done before it joins the others.
        """
        for place in {self.folder, self.gate}:
            for path in (*place.glob(".step-*.tmp"), *place.glob(".writable.*.tmp")):
                self._remove(path)

    def _newest_good(self, paths: list[Path]) -> Saved | None:
        if not paths and self._named(kind=r"(\.pt)?"):
            how = "sharded" if self.ending else "each in one file"
            raise CheckpointError(
                f"the checkpoints in {self.folder} are {how}, so this run would begin anew; go on "
                "with that kind, or name another folder"
            )
        why = ""
        for path in paths:
            try:
                return self.kind(step_of(path), self.read_checked(path), path)
            except (ValueError, OSError) as trouble:
                if isinstance(trouble, Damaged):
                    self._bad.add(path)
                why = getattr(trouble, "strerror", None) or f"{trouble}"
                self.say(f"checkpoint {path.name} is passed over: {why}")
        if paths:
            raise CheckpointError(
                f"no checkpoint in {self.folder} is whole (of {paths[-1].name}: {why}); bring one "
                "back from a copy, or move them away to begin anew"
            )
        return None

    def _same(self, name: str, names: list[str]) -> Saved | None:
        """The checkpoint `name` that rank 0 found, as this rank sees it; `names` are all it saw.

        None if it found no good one, and this rank does not see others than it.
        """
        rank = rank_and_world()[0]
        seen = {path.name: path for path in self.paths()}
        if not name and seen.keys() <= set(names):
            return None
        if name not in seen:
            raise CheckpointError(
                f"rank {rank} sees {len(seen)} checkpoints in {self.folder}, but rank 0 found "
                f"{name or 'no good one'} there; name a folder that all nodes share"
            )
        try:
            return self.kind(step_of(seen[name]), self.read(seen[name]), seen[name])
        except (OSError, ValueError) as error:
            raise CheckpointError(f"checkpoint {name} cannot be read: {error}") from error

    def _named(self, kind: str) -> list[Path]:
        """What is called as a checkpoint, with an ending of this pattern."""
        with explain_oserror(f"the checkpoints in {self.folder} cannot be listed"):
            inside = list(self.folder.iterdir()) if self.folder.exists() else []
        pattern = re.compile(r"step-\d{8,}-[0-9a-f]{16}" + kind)
        return [path for path in inside if pattern.fullmatch(path.name)]

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
    """The optimizer step in the name of a checkpoint."""
    return int(path.name.split("-")[1])


def check_sum(path: Path, file: Path) -> None:
    """Raise Damaged if `file` has not the checksum that stands in the name `path`."""
    if sha256(file)[:16] != path.name.split("-")[2][:16]:
        raise Damaged("its checksum differs, so it was torn, cut or changed")
