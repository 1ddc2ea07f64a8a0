"""Torch files of plain things: tensors, numbers, strings in dicts, lists and tuples; no code."""

import contextlib
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

# what torch.load(weights_only=True) gives back as it was
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Size)
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def save_plain(state: dict, file: BinaryIO) -> str:
    """Write `state` as a torch file; return the sha256 of it. Raises OSError where it cannot.

    The same state gives the same bytes, whenever it is written.
    """
    hashing = _Hashing(file)
    with plainly():
        torch.save(state, cast(IO[bytes], hashing))  # it calls write and flush
    return hashing.sum.hexdigest()


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Let torch's writer say why it could not write.

    On a full disk torch 2.13 raises RuntimeError, "unexpected pos 768 vs 662"; what the system
    said is only in its context.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def load_plain(path: Path) -> dict:
    """Read a torch file on to the CPU. Raises ValueError if it is none, or names any class."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError("torch.load(weights_only=True) refuses what is in it") from error


def check_plain(value: Any, name: str = "state") -> None:
    """Raise ValueError, which says where, if `load_plain` would not give all of `value` back."""
    if type(value) in (dict, OrderedDict):
        for key, each in value.items():
            check_plain(key, f"a key of {name}")
            check_plain(each, f"{name}[{key!r}]")
    elif type(value) in (list, tuple):
        for index, each in enumerate(value):
            check_plain(each, f"{name}[{index}]")
    elif type(value).__name__ == "DTensor":
        raise ValueError(f"{name} is sharded over ranks; save it with ShardedCheckpoints")
    elif type(value) not in (*_PLAIN, *_TENSORS):
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise ValueError(f"{name} is a {kind}, which is not read back; keep plain values of it")


def sha256(path: Path) -> str:
    """The checksum of a file's contents, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Hashing:
    """Passes on what is written to `file`, and adds it up."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sum = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()
