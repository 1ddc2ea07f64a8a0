"""What a rank sends: every collective and message of a block, by dimension of the mesh.

::

    with traffic(mesh) as sent:
        part.step(tokens, targets)
    print(sent)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from rankbook.comm.counts import OTHER, Message, Sent
from rankbook.comm.operators import CALLS, calls, group_of, sizes
from rankbook.comm.ring_model import ring_bytes


@contextmanager
def traffic(mesh: DeviceMesh | None = None) -> Iterator[Sent]:
    """Count what this rank hands to collectives and messages while the block runs.

    mesh: its dimensions, and those flattened from them, name what is sent. A group belongs to the
    dimension that has the same ranks, the mesh's own first (so the group of all ranks is that of a
    dimension which has all ranks), or that has all of its ranks: HSDP's groups are "dp". What
    belongs to none is "other". Groups of one rank send nothing and are left out.

    Seen are the collectives that go through torch's dispatcher: those of `torch.distributed`, of
    DTensor, FSDP2, DDP and pipelines, forward and backward, and of compiled code. Not seen: those
    that another thread begins, what a backend does inside, and the store. A first step
    sends more than the next ones: stages tell each other their shapes.
    """
    dimensions = _dimensions(mesh)
    sent = Sent(dict.fromkeys(dimensions.values()))
    with _Watch(dimensions, sent.messages.append):
        yield sent


def _dimensions(mesh: DeviceMesh | None) -> dict[tuple[int, ...], str]:
    """The ranks of this rank's group in each dimension, and its name."""
    if mesh is None:
        return {}
    found: dict[tuple[int, ...], str] = {}
    root = mesh._get_root_mesh()
    for each in (mesh, *root._flatten_mapping.values()):
        for name in each.mesh_dim_names or ():
            ranks = tuple(dist.get_process_group_ranks(each.get_group(name)))
            found.setdefault(ranks, name)
    return found


class _Watch(TorchDispatchMode):
    def __init__(self, dimensions: dict[tuple[int, ...], str], note: Callable[[Message], None]):
        super().__init__()
        self._dimensions, self._note = dimensions, note

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it comes again, as the collectives that it needs
        kwargs = kwargs or {}
        for name, given in calls(func, args, kwargs):
            self._see(name, given)
        return func(*args, **kwargs)

    def _see(self, name: str, given: dict[str, Any]) -> None:
        operation, argument = CALLS[name]
        group = group_of(given)
        ranks, rank = tuple(dist.get_process_group_ranks(group)), dist.get_rank(group)
        n = len(ranks)
        if n == 1:
            return
        parts = sizes(given[argument]) if argument else []
        nbytes, root = sum(parts), given.get("root_rank", given.get("src", 0))
        ring = ring_bytes(operation, nbytes, n, rank, root)
        if operation == "all_to_all":  # shares may differ
            shares = parts if name == "alltoall_" else given.get("input_split_sizes") or [1] * n
            ring = float(nbytes * (1 - shares[rank] / max(1, sum(shares))))
        stays = operation == "recv" or (operation == "broadcast" and rank != root)
        self._note(Message(self._dimension(ranks), operation, n, 0 if stays else nbytes, ring))

    def _dimension(self, ranks: tuple[int, ...]) -> str:
        if ranks in self._dimensions:
            return self._dimensions[ranks]
        around = (name for of, name in self._dimensions.items() if set(ranks) < set(of))
        return next(around, OTHER)
