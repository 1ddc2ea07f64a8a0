"""A rank's side of a proof: its part of the model, looked at while it makes a step."""

import math
from collections.abc import Iterable
from typing import Any

import torch

from rankbook.core.dtensor import is_dtensor, to_local
from rankbook.prove.facts import Facts, measure
from rankbook.prove.names import Named
from rankbook.prove.pieces import Layout, is_partial, piece_of
from rankbook.prove.twin import TwinStep

Values = dict[str, torch.Tensor | None]
Key = tuple[int, str, str]  # step, kind, name
EXACT = 4  # roundings of a stored value that two ways to compute it may differ by


class RankView:
    """What of the model is on this rank, beside the same pieces of the twin's tensors.

    named, buffers: by the twin's names. first: of a tied parameter's names, the twin's first.
    tolerance: relative, of gradients. rounding: that of one stored value.
    """

    def __init__(
        self,
        named: Named,
        buffers: Named,
        first: dict[str, str],
        layout: Layout,
        tolerance: float,
        rounding: float,
    ):
        self.named, self.buffers, self.first, self.layout = named, buffers, first, layout
        self.tolerance, self.rounding = tolerance, rounding
        self.facts: dict[Key, Facts] = {}
        self.sums: dict[Key, torch.Tensor] = {}  # gradients whose parts are on several ranks
        self.twins: dict[Key, tuple[torch.Tensor, float]] = {}
        self.step, self.doing = 1, "step"

    def tensors(self) -> list[torch.Tensor]:
        """Its parameters and buffers."""
        return [*self.named.values(), *self.buffers.values()]

    def fits(self, twin: Named) -> None:
        """Raise ValueError for a parameter whose shape isn't that of its piece of the twin's."""
        for name, parameter in self.named.items():
            whole = twin[self.first[name]]
            mine = tuple(to_local(parameter).shape)
            if mine != tuple(piece_of(parameter, name, self.layout).cut(whole).shape):
                raise ValueError(
                    f"{name} is {list(mine)} on a rank and {list(whole.shape)} in the twin; say "
                    f"how it is cut: layout={{{name!r}: {_guess(mine, whole.shape)}}}, mesh=..."
                )

    def look_before(self, values: Named, buffers: Named) -> None:
        """Compare parameters and buffers with those that the twin has."""
        floor = _root_mean_square(values.values())
        for name, parameter in self.named.items():
            whole = values[self.first[name]]
            self._compare("before", name, parameter, whole, floor, EXACT * self.rounding)
        for name, buffer in self.buffers.items():
            if to_local(buffer).shape == buffers[name].shape:
                self._compare("before", name, buffer, buffers[name], 0.0, EXACT * self.rounding)

    def look_gradients(self, kind: str, values: Values) -> None:
        """Compare the gradients, then put the twin's in their place.

        What follows begins with the right ones, so that what it does wrong is seen by itself. An
        Adam would otherwise make a whole step of a gradient that is zero but for rounding.
        """
        floor = _root_mean_square(v for v in values.values() if v is not None)
        for name, parameter in self.named.items():
            value = values[self.first[name]]
            gradient = parameter.grad
            if value is None and gradient is None:
                value = gradient = torch.zeros_like(to_local(parameter))
                self.facts[self.step, kind, name] = measure(name, "", value, value, 0, 0.0, 0.0)
                continue
            whole = value
            if whole is None:
                assert gradient is not None
                whole = torch.zeros(parameter.shape, dtype=gradient.dtype, device=gradient.device)
            like = parameter if gradient is None else gradient
            if gradient is not None and is_partial(gradient):
                key = (self.step, kind, name)
                self.sums[key], self.twins[key] = gradient.detach().clone(), (whole, floor)
            else:
                self._compare(kind, name, gradient, whole, floor, self.tolerance, like)
            if value is not None:
                self._put(parameter, name, value)

    def look_after(self, twin: TwinStep) -> None:
        """Compare how the parameters have changed, and the buffers."""
        changes = {name: twin.after[name] - twin.before[name] for name in twin.after}
        floor = _root_mean_square(changes.values())
        for name, parameter in self.named.items() if changes else ():
            first = self.first[name]
            piece = piece_of(parameter, name, self.layout)
            before = piece.cut(twin.before[first]).to(torch.float64)
            change = to_local(parameter).to(before) - before
            right = piece.cut(twin.after[first]).to(torch.float64) - before
            self.facts[self.step, "after", name] = measure(
                name,
                piece.which(twin.before[first]),
                change,
                right,
                changes[first].numel(),
                floor,
                self.tolerance,
                EXACT * self.step * self.rounding * float(before.norm()),
            )
        floor = _root_mean_square(b for b in twin.buffers.values() if b.is_floating_point())
        for name, buffer in self.buffers.items():
            if to_local(buffer).shape == twin.buffers[name].shape:
                right = twin.buffers[name]
                self._compare("buffer", name, buffer, right, floor, self.tolerance)

    def add_up(self, everyone: list[dict[Key, list[int]]]) -> None:
        """Compare the gradients that are sums over ranks: of each that all its ranks have.

        everyone: by rank, the keys of `sums`, each with the ranks of its mesh.
        """
        for key in sorted(set().union(*everyone)):
            holders = {rank for rank, keys in enumerate(everyone) if key in keys}
            if key not in self.sums or not set(everyone[min(holders)][key]) <= holders:
                continue
            mine: Any = self.sums[key]
            whole, floor = self.twins[key]
            plain = [_replicate() if p.is_partial() else p for p in mine.placements]
            added = mine.redistribute(placements=plain)
            self.facts[key] = self._measured(key[2], added, whole, floor, self.tolerance, added)

    def mesh_ranks(self) -> dict[Key, list[int]]:
        """Of the gradients that are sums: which ranks have to call to add them up."""
        tensors: dict[Key, Any] = dict(self.sums)
        return {key: t.device_mesh.mesh.flatten().tolist() for key, t in tensors.items()}

    def _compare(
        self,
        kind: str,
        name: str,
        mine: torch.Tensor | None,
        whole: torch.Tensor,
        floor: float,
        tolerance: float,
        like: torch.Tensor | None = None,
    ) -> None:
        """Note the facts of `mine`, whose layout is that of `like` (itself)."""
        like = mine if like is None else like
        assert like is not None
        facts = self._measured(name, mine, whole, floor, tolerance, like)
        self.facts[self.step, kind, name] = facts

    def _measured(
        self,
        name: str,
        mine: torch.Tensor | None,
        whole: torch.Tensor,
        floor: float,
        tolerance: float,
        like: torch.Tensor,
    ) -> Facts:
        piece = piece_of(like, name, self.layout)
        local = None if mine is None else to_local(mine)
        which = piece.which(whole)
        return measure(name, which, local, piece.cut(whole), whole.numel(), floor, tolerance)

    def _put(self, parameter: torch.Tensor, name: str, value: torch.Tensor) -> None:
        like = parameter if parameter.grad is None else parameter.grad
        piece = piece_of(like, name, self.layout).cut(value)
        with torch.no_grad():
            if parameter.grad is not None:
                to_local(parameter.grad).copy_(piece / _summands(parameter.grad))
            else:
                parameter.grad = _as(parameter, piece.to(to_local(parameter)).clone())


def _as(parameter: Any, local: torch.Tensor) -> torch.Tensor:
    """`local` as this rank's part of a tensor laid out as `parameter`."""
    if not is_dtensor(parameter):
        return local
    from torch.distributed.tensor import DTensor

    mesh, placements = parameter.device_mesh, parameter.placements
    shape, stride = parameter.shape, parameter.stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=stride)


def _summands(gradient: Any) -> int:
    """How many ranks' equal parts add up to the whole of it."""
    if not is_dtensor(gradient):
        return 1
    sizes = zip(gradient.placements, gradient.device_mesh.shape, strict=True)
    return math.prod(n for p, n in sizes if p.is_partial() and p.reduce_op == "sum")


def _replicate() -> Any:
    from torch.distributed.tensor import Replicate

    return Replicate()


def _root_mean_square(tensors: Iterable[torch.Tensor]) -> float:
    """Of all elements of all of them."""
    squares, count = 0.0, 0
    for tensor in tensors:
        squares += float(tensor.detach().abs().to(torch.float64).square().sum())
        count += tensor.numel()
    return math.sqrt(squares / count) if count else 0.0


def _guess(mine: tuple[int, ...], whole: torch.Size) -> str:
    """A placement that might be meant, for a message."""
    if len(mine) != len(whole):
        return "function that cuts the piece"
    dims = [dim for dim, size in enumerate(whole) if mine[dim] != size]
    return f"Shard({dims[0]})" if dims else "Shard(0)"
