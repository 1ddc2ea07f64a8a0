"""Checkpoints of which each rank writes a part, while training goes on.

Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import FileSystemWriter, async_save
from torch.distributed.checkpoint import load as load_tensors
from torch.distributed.checkpoint.api import CheckpointException
from torch.optim import Optimizer

from rankbook.core.agreement import agree, broadcast_from_rank0, rank_and_world
from rankbook.core.atomic import hidden, sync_folder, write_text_atomic
from rankbook.training.checkpoint.errors import CheckpointError, Damaged, explain_oserror
from rankbook.training.checkpoint.fence import fenced
from rankbook.training.checkpoint.plain import check_plain, load_plain, plainly, save_plain, sha256
from rankbook.training.checkpoint.reading import SafeReader
from rankbook.training.checkpoint.state import check_suits, put_back, unwrap_model
from rankbook.training.checkpoint.store import Saved, Store, check_sum

# said for one process, also when that was asked for
warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")

CONTENTS = "contents.json"  # the checksum of every other file; its own stands in the folder's name
PLAIN = "plain.pt"  # all but the tensors, of which it has the shapes


class ShardedSaved(Saved):
    """A good checkpoint of which `state` has the shapes only: each rank reads what it needs."""

    def load_into(
        self,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        scheduler: Any = None,
        scaler: Any = None,
    ) -> dict:
        """As for every `Saved`; tensors become whole or sharded, as those of the model are."""
        model = unwrap_model(model)
        parts = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
        agree(lambda: check_suits(self.state, model, parts))
        return put_back(self.read_for(model, optimizer), model, parts)

    def read_for(self, model: nn.Module, optimizer: Optimizer | None) -> dict:
        """The state with its tensors, made like those of model and optimizer; on all ranks.

        Raises CheckpointError, on all ranks.
        """
        state = copied(self.state)
        own = model.state_dict()
        parameters = [p for g in optimizer.param_groups for p in g["params"]] if optimizer else []
        rooms = {}
        for name, index, holder, key in tensors_of(state):
            if index is not None and not optimizer:
                continue
            like, kept = own[key] if index is None else parameters[index], holder[key]
            if like.shape == kept.shape:
                holder[key] = rooms[name] = torch.empty_like(like, dtype=kept.dtype)
            else:  # a count of steps
                holder[key] = rooms[name] = torch.empty(kept.shape, dtype=kept.dtype)
        read_tensors(rooms, self.path)
        return state


class ShardedCheckpoints(Store):
    """Checkpoints in a folder each, of which every rank writes its part, in the background.

    A save returns when the state is copied, and is written while training goes on: its process
    group is its own, since collectives of two threads on one group would meet each other's. Until
    `wait` returns, count on the checkpoint before: wait before the process ends.
    """

    ending = ""
    kind = ShardedSaved

    def __init__(
        self, folder: Path | str, keep: int = 3, say: Callable[[str], object] = print
    ) -> None:
        super().__init__(folder, keep, say)
        self._group: dist.ProcessGroup | None = None
        self._saving: tuple[int, Future] | None = None

    def save(self, step: int, state: dict) -> None:
        """Begin to write, as for every `Store`; on all ranks.

        Waits for the save before, and says it if that failed. Raises, on all ranks, if this one
        cannot begin; if it fails later, `wait` says so, or the next save does.
        """
        try:
            self.wait()
        except CheckpointError as error:
            if rank_and_world()[0] == 0:
                self.say(f"{error}")
        tensors, rest = _apart(state)
        agree(lambda: check_plain(rest))
        together = rank_and_world()[1] > 1
        if together and self._group is None:
            self._group = cast(dist.ProcessGroup, dist.new_group(backend="gloo"))
        growing = broadcast_from_rank0(lambda: self._begin(step, rest), self._group)
        writer = _Writer(growing, lambda: self._finish(step, growing))
        saving = async_save(
            tensors, storage_writer=writer, process_group=self._group, no_dist=not together
        )
        self._saving = step, cast(Future, saving)

    def wait(self) -> None:
        if self._saving is None:
            return
        (step, saving), self._saving = self._saving, None
        with explain_oserror(f"step {step} was not saved in {self.folder}"):
            try:
                saving.result()
            except CheckpointException as error:
                rank, (cause, _) = min(error.failures.items())
                if isinstance(cause, OSError):
                    raise cause from error
                raise OSError(f"rank {rank} says {cause}") from error
            except RuntimeError as error:  # of gloo: another rank is gone
                raise OSError(f"{error}") from error

    def read(self, path: Path) -> dict:
        """The state in `path`, with the shapes of its tensors only."""
        return load_plain(path / PLAIN)

    def read_checked(self, path: Path) -> dict:
        if not (path / CONTENTS).is_file():
            raise Damaged(f"its {CONTENTS} is missing")
        check_sum(path, path / CONTENTS)
        for name, checksum in json.loads((path / CONTENTS).read_text()).items():
            if not (path / name).is_file() or sha256(path / name) != checksum:
                raise Damaged(f"its {name} is missing, torn, cut or changed")
        return self.read(path)

    def _begin(self, step: int, rest: dict) -> Path:
        """Make the folder that grows into a checkpoint, with what is no tensor."""
        saving = explain_oserror(f"step {step} was not saved in {self.folder}")
        with saving, fenced(self.gate, self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.remove_leftovers()
            growing = hidden(self.gate / f"step-{step:08}")
            growing.mkdir()
            with (growing / PLAIN).open("xb") as file:  # synced with the others, in `_finish`
                save_plain(rest, file)
        return growing

    def _finish(self, step: int, growing: Path) -> None:
        """All parts are written and synced: add the checksums, let the folder be seen; rank 0."""
        with fenced(self.gate, self.folder):
            SafeReader(growing).read_metadata()  # ValueError for what could not be read back
            with (growing / PLAIN).open("rb") as file:
                os.fsync(file.fileno())
            sums = {path.name: sha256(path) for path in sorted(growing.iterdir())}
            write_text_atomic(growing / CONTENTS, json.dumps(sums, indent=1))
            path = growing.rename(self.folder / self.name(step, sha256(growing / CONTENTS)))
        sync_folder(self.folder)
        self.prune(step, path)


def read_tensors(rooms: dict[str, torch.Tensor], path: Path) -> None:
    """Fill `rooms` from the checkpoint at `path`; on all ranks. Raises CheckpointError on all."""
    try:
        load_tensors(rooms, storage_reader=SafeReader(path), no_dist=rank_and_world()[1] == 1)
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        raise CheckpointError(f"rank {rank} cannot read checkpoint {path}: {cause}") from error


class _Writer(FileSystemWriter):
    """A writer that calls `done`, on rank 0, when the parts of all ranks are on the disk."""

    def __init__(self, path: Path, done: Callable[[], None]) -> None:
        super().__init__(path, sync_files=True)
        self._done = done

    def write_data(self, *args, **kwargs):
        with plainly():
            return super().write_data(*args, **kwargs)

    def finish(self, *args, **kwargs) -> None:
        super().finish(*args, **kwargs)
        self._done()


def _apart(state: dict) -> tuple[dict[str, torch.Tensor], dict]:
    """The tensors of model and optimizer, and a state that has only their shapes."""
    rest, tensors = copied(state), {}
    for name, _, holder, key in tensors_of(rest):
        tensor = tensors[name] = holder[key]
        holder[key] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return tensors, rest


def copied(state: dict) -> dict:
    """A copy in which tensors of model and optimizer can be replaced."""
    copy = state | {"model": {**state["model"]}}
    if optimizer := state["optimizer"]:
        moments = {index: {**each} for index, each in optimizer["state"].items()}
        copy["optimizer"] = optimizer | {"state": moments}
    if replicas := state.get("replicas"):
        copy["replicas"] = {index: copied(own) for index, own in replicas.items()}
    return copy


def tensors_of(state: dict, prefix: str = "") -> Iterator[tuple[str, int | None, dict, Any]]:
    """Each tensor: its name in the files, its parameter's index if the optimizer's, its place."""
    for key in state["model"]:
        yield f"{prefix}model.{key}", None, state["model"], key
    for index, of_one in (state["optimizer"] or {"state": {}})["state"].items():
        for key, value in of_one.items():
            if isinstance(value, torch.Tensor):
                yield f"{prefix}optimizer.{index}.{key}", index, of_one, key
    for index, own in state.get("replicas", {}).items():  # see `capture_replica`
        yield from tensors_of(own, f"replicas.{index}.")
