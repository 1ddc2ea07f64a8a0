"""Checkpoints of which each rank writes a part, while training goes on.

Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

import json
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import FileSystemWriter, async_save
from torch.distributed.checkpoint import load as load_tensors
from torch.distributed.checkpoint.api import CheckpointException
from torch.optim import Optimizer

from rankbook.training.checkpoint import SafeReader
from rankbook.training.elastic.checkpoints import (
    CheckpointError,
    Checkpoints,
    Damaged,
    check_sum,
    told,
)
from rankbook.training.elastic.plain import check_plain, load_plain, plainly, save_plain, sha256
from rankbook.training.elastic.together import from_first, place
from rankbook.training.elastic.whole import hidden, sync_folder, write_whole

# said for one process, also when that was asked for
warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")

CONTENTS = "contents.json"  # the checksum of every other file; its own stands in the folder's name
PLAIN = "plain.pt"  # all but the tensors, of which it has the shapes


class ShardedCheckpoints(Checkpoints):
    """Checkpoints like `Checkpoints`, in a folder each, of which every rank writes its part.

    Made on all ranks. A save returns when the state is copied, and is written while training goes
    on: its process group is its own, since collectives of two threads on one group would meet
    each other's. `wait` for the last one before the process ends.
    """

    ending = ""
    collective = True

    def __init__(self, folder: Path, keep: int = 3, say: Callable[[str], object] = print) -> None:
        super().__init__(folder, keep, say)
        self._group: dist.ProcessGroup | None = None
        self._saving: tuple[int, Future] | None = None

    def save(self, step: int, state: dict) -> None:
        """Begin to write `state`, that after optimizer step `step`; on all ranks.

        Waits for the save before, and says it if that failed. Raises CheckpointError, on all
        ranks, if this one cannot begin, and ValueError for something that could not be read back.
        """
        try:
            self.wait()
        except CheckpointError as error:
            if place()[0] == 0:
                self.say(f"{error}")
        tensors, rest = _apart(state)
        check_plain(rest)
        together = place()[1] > 1
        if together and self._group is None:
            self._group = dist.new_group(backend="gloo")
        growing = from_first(lambda: self._begin(step, rest), self._group)
        writer = _Writer(growing, lambda: self._finish(step, growing))
        saving = async_save(
            tensors, storage_writer=writer, process_group=self._group, no_dist=not together
        )
        self._saving = step, saving

    def wait(self) -> None:
        """Return when the last save is on the disk. Raises CheckpointError if it failed."""
        if self._saving is None:
            return
        (step, saving), self._saving = self._saving, None
        with told(f"step {step} was not saved in {self.folder}"):
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
        """The state in `path`, with the shapes of its tensors only: `restore` reads those."""
        return load_plain(path / PLAIN) | {"shards": str(path)}

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
        with told(f"step {step} was not saved in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.remove_leftovers()
            growing = hidden(self.folder / f"step-{step:08}")
            growing.mkdir()
            write_whole(growing / PLAIN, lambda file: save_plain(rest, file) and None)
        return growing

    def _finish(self, step: int, growing: Path) -> None:
        """All parts are written: add the checksums, and let the folder be seen; on rank 0."""
        SafeReader(growing).read_metadata()  # ValueError for what could not be read back
        sums = {path.name: sha256(path) for path in sorted(growing.iterdir())}
        contents = json.dumps(sums, indent=1).encode()
        write_whole(growing / CONTENTS, lambda file: file.write(contents) and None)
        path = growing.rename(self.folder / self.name(step, sha256(growing / CONTENTS)))
        sync_folder(self.folder)
        self.prune(step, path)


def read_shards(state: dict, model: nn.Module, optimizer: Optimizer) -> dict:
    """All of a `state` that ShardedCheckpoints found; on all ranks, which each read their part.

    model, optimizer: what the state is for. Its tensors come as theirs are: sharded alike over any
    number of ranks where a parameter is, otherwise whole. Raises CheckpointError, on all ranks.
    """
    state, path = _copy(state), state["shards"]
    own = model.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    rooms = {}
    for name, index, holder, key in _tensors(state):
        like, kept = own[key] if index is None else parameters[index], holder[key]
        if like.shape == kept.shape:
            holder[key] = rooms[name] = torch.empty_like(like, dtype=kept.dtype)
        else:  # a count of steps
            holder[key] = rooms[name] = torch.empty(kept.shape, dtype=kept.dtype)
    try:
        load_tensors(rooms, storage_reader=SafeReader(path), no_dist=place()[1] == 1)
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        raise CheckpointError(f"rank {rank} cannot read checkpoint {path}: {cause}") from error
    return state


class _Writer(FileSystemWriter):
    """A writer that calls `done`, on rank 0, when the parts of all ranks are on the disk."""

    def __init__(self, path: Path, done: Callable[[], None]) -> None:
        super().__init__(path)
        self._done = done

    def write_data(self, *args, **kwargs):
        with plainly():
            return super().write_data(*args, **kwargs)

    def finish(self, *args, **kwargs) -> None:
        super().finish(*args, **kwargs)
        self._done()


def _apart(state: dict) -> tuple[dict[str, torch.Tensor], dict]:
    """The tensors of model and optimizer, and a state that has only their shapes."""
    rest, tensors = _copy(state), {}
    for name, _, holder, key in _tensors(rest):
        tensor = tensors[name] = holder[key]
        holder[key] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return tensors, rest


def _copy(state: dict) -> dict:
    """A copy in which tensors of model and optimizer can be replaced."""
    optimizer = state["optimizer"]
    moments = {index: {**each} for index, each in optimizer["state"].items()}
    return state | {"model": {**state["model"]}, "optimizer": optimizer | {"state": moments}}


def _tensors(state: dict) -> Iterator[tuple[str, int | None, dict, Any]]:
    """Each tensor: its name in the files, its parameter's index if the optimizer's, its place."""
    for key in state["model"]:
        yield f"model.{key}", None, state["model"], key
    for index, of_one in state["optimizer"]["state"].items():
        for key, value in of_one.items():
            if isinstance(value, torch.Tensor):
                yield f"optimizer.{index}.{key}", index, of_one, key
