"""What a rank of a pipeline holds, and where it idles: over the time of one step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from rankbook.parallel.pipeline.timeline import Timeline


def gaps(timeline: Timeline, rank: int) -> list[tuple[float, float]]:
    """When `rank` computes nothing: (start, end) of each gap, counted from the step's start.

    The time before a rank's first action and after its last one is idle, too: the gaps and the
    rank's actions together are the span.
    """
    found, busy_until = [], 0.0
    edges = [(a.start - timeline.start, a.end - timeline.start) for a in timeline.computed(rank)]
    for start, end in [*edges, (timeline.span, timeline.span)]:
        if start - busy_until > 1e-9 * timeline.span:  # not a rounding error
            found.append((busy_until, start))
        busy_until = end
    return found


def activations_in_flight(timeline: Timeline, rank: int) -> list[tuple[float, float]]:
    """How many activations `rank` holds, and since when: (time, number), in the order of time.

    One is what a microbatch leaves in all layers of the rank: where a rank has two stages, each
    of them counts half. It is held from the start of its forward to the end of its backward; of a
    split backward, to the end of W.
    """
    mine = timeline.computed(rank)
    share = 1 / len({action.stage for action in mine})
    changes = [(a.start, share) for a in mine if a.kind == "F"]
    changes += [(a.end, -share) for a in mine if a.kind in ("B", "W")]
    steps, now = [(0.0, 0.0)], 0.0
    for time, change in sorted(changes):  # what is freed at a moment goes first
        now += change
        if time - timeline.start == steps[-1][0]:
            steps.pop()
        steps.append((time - timeline.start, now))
    return steps


def peak(timeline: Timeline, rank: int) -> float:
    """The most activations that `rank` holds at once, counted as in `activations_in_flight`."""
    return timeline.in_flight(rank) / len({action.stage for action in timeline.computed(rank)})


class SavedBytes:
    """The bytes that autograd has saved in the forward passes of some modules, and not yet freed.

    limit: above it, a forward pass raises MemoryError, as a device does that is full. A tensor
    counts once a forward pass, however often it is saved; parameters do not count::

        saved = SavedBytes()
        saved.watch(stage)  # from now on
        saved.now, saved.peak

    Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks
    """

    def __init__(self, limit: float = float("inf")):
        self.limit, self.now, self.peak = limit, 0, 0

    def watch(self, module: nn.Module) -> nn.Module:
        """Count what `module` saves in every forward pass to come; returns it."""
        forward = module.forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            known = {p.untyped_storage().data_ptr() for p in module.parameters()}
            with saved_tensors_hooks(self._pack(known), lambda kept: kept.tensor):
                return forward(*args, **kwargs)

        module.forward = watched
        return module

    def _pack(self, known: set[int]) -> Callable[[torch.Tensor], "_Kept"]:
        """What autograd calls for each tensor that it saves; `known`: storages not to count."""

        def pack(tensor: torch.Tensor) -> _Kept:
            storage = tensor.untyped_storage()
            new = storage.data_ptr() not in known
            known.add(storage.data_ptr())
            return _Kept(self, tensor, tensor.nbytes if new else 0)

        return pack

    def _add(self, nbytes: int) -> None:
        if self.now + nbytes > self.limit:
            raise MemoryError(
                f"{self.now:,} bytes are held for backward passes, {nbytes:,} more do not fit "
                f"into {self.limit:,}; use fewer microbatches, or a schedule that holds fewer"
            )
        self.now += nbytes
        self.peak = max(self.peak, self.now)


class _Kept:
    """A saved tensor, which says when autograd lets go of it."""

    def __init__(self, owner: SavedBytes, tensor: torch.Tensor, nbytes: int):
        self.nbytes = 0  # in case that there is no room
        owner._add(nbytes)
        self.owner, self.tensor, self.nbytes = owner, tensor, nbytes

    def __del__(self):
        if self.nbytes:
            self.owner.now -= self.nbytes
