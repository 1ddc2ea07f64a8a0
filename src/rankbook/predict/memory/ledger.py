"""Every storage that is alive while a rank takes a step: when it came, when it went, whose it is.

`torch.distributed._tools.mem_tracker.MemTracker` follows storages in the same way, by weak
references, but has to be told what was there before: it sees neither DDP's buckets, which C++
allocates, nor the state of an optimizer within another one, and it refuses DeepSpeed's optimizers.
This one watches from the wrapping on, and asks the strategy which storage is what.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

REST = "activations"  # and whatever else an operation needs for a moment


@dataclass
class Entry:
    """One storage: (when, bytes) at its birth, at each change of size and at its end; its part."""

    sizes: list[tuple[int, int]] = field(default_factory=list)
    part: str = REST


class Ledger(TorchDispatchMode):
    """Follow all storages on `device` that an operation of torch reads or writes within.

    `clock` counts operations; `entries` has every storage that was seen, dead ones too. Not seen
    is what a kernel allocates and frees within itself, and Python's own memory.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        super().__init__()
        self.device, self.clock = torch.device(device).type, 0
        self.entries: list[Entry] = []
        self.rest = REST  # what a storage is of at its birth
        self.messages: list[tuple[int, str, int]] = []  # when, which collective, bytes
        self._live: dict[int, Entry] = {}
        self._watchers: dict[int, weakref.ref] = {}
        self._copies: list[tuple[Entry, Entry]] = []
        self._resize: Callable = UntypedStorage.resize_

    def __enter__(self):
        def resized(storage: UntypedStorage, size: int) -> Any:
            found = self._resize(storage, size)
            if storage._cdata in self._live:
                self._live[storage._cdata].sizes.append((self.clock + 1, storage.nbytes()))
            return found

        # FSDP2 empties gathered parameters by it
        setattr(UntypedStorage, "resize_", resized)  # noqa: B010
        return super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        setattr(UntypedStorage, "resize_", self._resize)  # noqa: B010
        super().__exit__(exc_type, exc_val, exc_tb)
        for into, source in reversed(self._copies):  # what went into a bucket was a gradient
            if source.part == REST and into.part in ("gradients", "buffers"):
                source.part = "gradients"
        self._copies.clear()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # it comes again as what it does to the local tensor
        result = func(*args, **(kwargs or {}))
        self.clock += 1
        if str(func).startswith("c10d"):
            sizes = [each.numel() * each.element_size() for each in plain(tree_leaves(args))]
            self.messages.append((self.clock, str(func).split(".")[1], max(sizes, default=0)))
        touched = self.of((args, kwargs, result))
        self._by_name(str(func), args, kwargs or {}, touched)
        return result

    def of(self, tensors: Any) -> list[Entry]:
        """The entries of all tensors within `tensors`, new ones where they were not known."""
        found = (self._entry(tensor.untyped_storage()) for tensor in plain(tree_leaves(tensors)))
        return [entry for entry in found if entry]

    def tag(self, part: str, tensors: Any) -> None:
        """Say that the storages of `tensors` are of `part`, unless they belong to one already."""
        for entry in self.of(tensors):
            if entry.part == REST:
                entry.part = part

    def tag_held(self, held: dict[str, dict[int, int]]) -> None:
        """Take over what a strategy's `held` says: addresses by part. The first part counts."""
        by_address = {at: part for part, found in reversed(held.items()) for at in found}
        # keys alone: a list of pairs, as it grows, may set off the collector, and that `_gone`
        for key in list(self._watchers):
            watcher = self._watchers.get(key)
            storage = watcher() if watcher else None
            if storage is not None and storage.nbytes() and storage.data_ptr() in by_address:
                self._live[key].part = by_address[storage.data_ptr()]

    def timeline(self, begin: int = 0) -> list[Counter]:
        """Bytes by part after each operation from `begin` on, as long as the ledger watched."""
        changes: dict[int, Counter] = {}
        for entry in self.entries:
            before = 0
            for when, size in entry.sizes:
                changes.setdefault(when, Counter())[entry.part] += size - before
                before = size
        lines, now = [], Counter()
        for when in range(self.clock + 1):
            if when in changes:
                now = now.copy()
                for part, change in changes[when].items():
                    now[part] += change
            lines.append(now)
        return lines[begin:]

    def _entry(self, storage: UntypedStorage) -> Entry | None:
        if storage.device.type != self.device:
            return None
        key = storage._cdata
        if key not in self._live:
            if not _has_memory(storage):
                return None
            entry = self._live[key] = Entry([(self.clock, storage.nbytes())], self.rest)
            self.entries.append(entry)
            self._watchers[key] = weakref.ref(storage, lambda _: self._gone(key))
        return self._live[key]

    def _gone(self, key: int) -> None:
        # it was there when the last operation was done, and is gone when the next one is
        self._live.pop(key).sizes.append((self.clock + 1, 0))
        del self._watchers[key]

    def _by_name(self, name: str, args: tuple, kwargs: dict, touched: list[Entry]) -> None:
        """What only the operation tells: parameters that were gathered, gradients on their way."""
        if "allgather" in name:
            self.tag("gathered", args[0])
        elif "split_with_sizes_copy" in name:  # FSDP2, out of what it gathered
            self.tag("gathered", kwargs.get("out"))
        elif name.startswith("aten.cat") and any(each.part == "gathered" for each in touched):
            touched[-1].part = "gathered"  # DeepSpeed, from the shards that came
        elif "chunk_cat" in name:  # FSDP2, into what it reduces
            self.tag("gradients", args)
            self.tag("buffers", kwargs.get("out"))
        elif name.startswith("c10d") and "reduce" in name:
            self.tag("buffers", args[:2])
        elif name.startswith("aten.copy_") and len(touched) > 1:
            self._copies.append((touched[0], touched[1]))


def _has_memory(storage: UntypedStorage) -> bool:
    """False for those of fake tensors, which DTensor learns shapes from, and of mere wrappers."""
    try:
        storage.data_ptr()
    except RuntimeError:
        return False
    return True


def plain(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among `values` that have a storage; of a DTensor, what lies on this rank."""
    for value in values:
        if isinstance(value, DTensor):
            value = value.to_local()
        if isinstance(value, Tensor) and value.layout == torch.strided:
            yield value
