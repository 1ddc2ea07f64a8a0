"""Reading what torch.distributed.checkpoint wrote, without running any code of it."""

import pickle
from enum import Enum
from pathlib import Path

from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata


class SafeReader(FileSystemReader):
    """A reader for tensors that runs no code of the files it reads.

    torch 2.13 reads tensors with ``weights_only=True``, but the table of contents with ``pickle``,
    and what is no tensor without ``weights_only``. Here the table may name nothing but what tables
    of tensors are made of. Raises ValueError otherwise.
    """

    def read_metadata(self, *args, **kwargs) -> Metadata:
        """The table of contents; ValueError if it is damaged, or names anything else."""
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
        if (module, name) == ("builtins", "getattr"):
            return _member
        if name not in _CONTENTS.get(module, ()):
            raise ValueError(f"a checkpoint names {module}.{name}, which none of ours does")
        return super().find_class(module, name)


def _member(kind: type[Enum], name: str) -> Enum:
    """A member of an enumeration: Python 3.11.2 writes it as a ``getattr``, others do not."""
    if not (isinstance(kind, type) and issubclass(kind, Enum)) or name not in kind.__members__:
        raise ValueError(f"a checkpoint asks for {name!r} of {kind!r}, which none of ours does")
    return kind[name]
