"""A short word for what must be the same on all ranks: the batch, the twin."""

import ctypes
import hashlib
from collections.abc import Iterator
from typing import Any

import torch


def digest(value: Any) -> str:
    """The same word for the same tensors and plain values, in tuples, lists and dictionaries."""
    seen = hashlib.sha256()
    for leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            seen.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
            data = leaf.detach().cpu().contiguous()
            if data.numel():  # not by numpy, which a machine with torch may lack
                seen.update(ctypes.string_at(data.data_ptr(), data.numel() * data.element_size()))
        elif isinstance(leaf, str | int | float | bool | None):
            seen.update(repr(leaf).encode())
    return seen.hexdigest()


def leaves(value: Any) -> Iterator[Any]:
    """All that is in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, dict):
        for key in value:
            yield str(key)
            yield from leaves(value[key])
    elif isinstance(value, tuple | list):
        for each in value:
            yield from leaves(each)
    else:
        yield value
