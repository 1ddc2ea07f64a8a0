"""Checkpoints of a pipeline that any number of stages and replicas can read.

Tensors are stored by torch.distributed.checkpoint under the whole model's parameter names: each
rank writes what it holds, once for all replicas, and reads what it needs. Source:
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

import pickle
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint import load as load_tensors
from torch.distributed.checkpoint import save as save_tensors
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.optim import Optimizer

from rankbook.parallel.pipeline import Pipeline
from rankbook.training.elastic.together import from_first


def save_checkpoint(
    path: Path, pipeline: Pipeline, optimizer: Optimizer | None = None, **values: float
) -> None:
    """Write model, optimizer and `values` to `path`, in place of what it held; on all ranks.

    path: on a file system that all ranks see; it becomes a link to a hidden folder beside it. The
    link is turned when all is written: a run killed at any moment leaves the old one or the new.
    """
    path = Path(path)
    state = _model(pipeline) | {
        f"value.{k}": torch.tensor(v, dtype=torch.float64) for k, v in values.items()
    }
    if optimizer is not None:
        state["optimizer"] = torch.tensor(True)  # some optimizers keep nothing
        state |= {
            f"optimizer.{name}.{key}": torch.as_tensor(value)
            for name, parameter in pipeline.named_parameters()
            for key, value in optimizer.state[parameter].items()
        }
    folder = from_first(lambda: _new_folder(path))
    save_tensors(state, storage_writer=FileSystemWriter(folder))
    from_first(lambda: _turn(path, folder))


def load_checkpoint(
    path: Path, pipeline: Pipeline, optimizer: Optimizer | None = None
) -> dict[str, float]:
    """Fill the pipeline, and the optimizer if one is given, from `path`; on all ranks.

    optimizer: of the kind that was saved, over the pipeline's parameters. The number of stages,
    ranks and replicas may differ from those that saved. Returns the `values` that were saved.
    Raises ValueError, on all ranks, if there is no checkpoint or its model is another.
    """
    reader = SafeReader(Path(path).resolve())
    kept, trouble = {}, f"there is no checkpoint at {path}; name the one that was saved"
    if (Path(path) / ".metadata").is_file():
        kept = reader.read_metadata().state_dict_metadata
        trouble = _trouble(kept, path, pipeline, optimizer)
    troubles = [""] * dist.get_world_size()
    dist.all_gather_object(troubles, trouble)  # nobody goes on alone
    if any(troubles):
        raise ValueError(next(filter(None, troubles)))
    model, values = _model(pipeline), _empty(kept, "value.")
    moments = _moments(kept, pipeline) if optimizer is not None else {}
    flat = {
        f"optimizer.{name}.{key}": tensor
        for name, of_name in moments.items()
        for key, tensor in of_name.items()
    }
    load_tensors(model | flat | values, storage_reader=reader)
    if optimizer is not None:
        _fill(optimizer, pipeline, moments)
    return {name.removeprefix("value."): value.item() for name, value in values.items()}


class SafeReader(FileSystemReader):
    """A reader for tensors that runs no code of the files it reads.

    torch 2.13 reads tensors with ``weights_only=True``, but the table of contents with ``pickle``,
    and what is no tensor without ``weights_only``. Here the table may name nothing but what tables
    of tensors are made of. Raises ValueError otherwise.
    """

    def read_metadata(self, *args, **kwargs) -> Metadata:
        try:
            with (Path(self.path) / ".metadata").open("rb") as file:
                metadata = _Unpickler(file).load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"the checkpoint at {self.path} is damaged: {error}") from error
        metadata.storage_meta.load_id = self.load_id
        return metadata


# what a table of contents is made of, by module
_CONTENTS = {
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorStorageMetadata"),
        *("ChunkStorageMetadata", "TensorProperties", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", "float64", "float32", "float16", "bfloat16", "int64", "bool"},
    "pathlib": {"PosixPath"},
    "pathlib._local": {"PosixPath"},  # its name in Python 3.13
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name not in _CONTENTS.get(module, ()):
            raise ValueError(f"a checkpoint names {module}.{name}, which none of ours does")
        return super().find_class(module, name)


def _model(pipeline: Pipeline) -> dict[str, torch.Tensor]:
    return {f"model.{name}": p.detach() for name, p in pipeline.named_parameters()}


def _empty(kept: dict[str, TensorStorageMetadata], start: str) -> dict[str, torch.Tensor]:
    """Room for all that is kept under names with this `start`."""
    return {
        name: torch.empty(about.size, dtype=about.properties.dtype)
        for name, about in kept.items()
        if name.startswith(start)
    }


def _moments(kept: dict, pipeline: Pipeline) -> dict[str, dict[str, torch.Tensor]]:
    """Room for the optimizer's tensors of this rank's parameters, where those are."""
    moments = {}
    for name, parameter in pipeline.named_parameters():
        start = f"optimizer.{name}."
        moments[name] = {
            key.removeprefix(start): (
                torch.zeros_like(parameter, requires_grad=False)
                if room.shape == parameter.shape
                else room
            )
            for key, room in _empty(kept, start).items()
        }
    return moments


def _fill(optimizer: Optimizer, pipeline: Pipeline, moments: dict) -> None:
    names = {id(parameter): name for name, parameter in pipeline.named_parameters()}
    every = [p for group in optimizer.param_groups for p in group["params"]]
    state = {index: moments[names[id(parameter)]] for index, parameter in enumerate(every)}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _trouble(kept: dict, path: Path, pipeline: Pipeline, optimizer: Optimizer | None) -> str:
    """Why the checkpoint does not suit this rank's parameters, or nothing."""
    for name, parameter in pipeline.named_parameters():
        about = kept.get(f"model.{name}")
        if about is None:
            return f"the checkpoint at {path} has no parameter {name}: it is of another model"
        if about.size != parameter.shape:
            return (
                f"{name} is {tuple(about.size)} in the checkpoint at {path}, but "
                f"{tuple(parameter.shape)} in this model; make the model with the same sizes"
            )
    if optimizer is not None and "optimizer" not in kept:
        return f"the checkpoint at {path} holds a model without an optimizer; load the model alone"
    return ""


def _new_folder(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix=_hidden(path), dir=path.parent)


def _turn(path: Path, folder: str) -> None:
    """Make the link `path` point to the new `folder`, in one step; remove all older ones."""
    link = path.with_name(f"{path.name}.new")
    link.unlink(missing_ok=True)
    link.symlink_to(Path(folder).name)
    link.replace(path)
    for old in path.parent.glob(f"{_hidden(path)}*"):
        if old.name != Path(folder).name:
            shutil.rmtree(old)


def _hidden(path: Path) -> str:
    """How our folders begin: no user's ``best-of-all`` beside ``best`` may pass for an old one."""
    return f".{path.name}.kept-"
