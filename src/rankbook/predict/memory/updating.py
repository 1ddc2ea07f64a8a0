"""Adam whose state is cut among replicas, kept in 32 bits beside 16, or on the host: ZeRO 1 and 2.

Each parameter is cut flat into equal pieces, and each rank updates its own: as even as it can be,
where `torch.distributed.optim.ZeroRedundancyOptimizer` deals out whole tensors. torch's AdamW does
the arithmetic. Source: ZeRO, https://arxiv.org/abs/1910.02054, section 5.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rankbook.core.dtensor import to_local
from rankbook.parallel.mesh.clipping import summed


@dataclass(frozen=True)
class Sharing:
    """Who shares: `group`, the ranks that keep one copy together; `others`, those with the same
    piece of another copy. None: this rank alone."""

    group: dist.ProcessGroup | None = None
    others: dist.ProcessGroup | None = None

    @property
    def place(self) -> tuple[int, int]:
        """This rank's number in the group, and the group's size."""
        if self.group is None:
            return 0, 1
        return dist.get_rank(self.group), dist.get_world_size(self.group)


class Update:
    """AdamW of `parameters`, each rank of `sharing` for its pieces; on all ranks.

    copies: have the optimizer work on copies in 32 bits. host: keep state and copies in the host's
    memory, and update there. scatter: ZeRO 2, each gradient is averaged and cut as soon as it is
    made, and only the own piece stays; `times` microbatches add to it. Otherwise the gradients are
    averaged when `step` is called.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        sharing: Sharing,
        lr: float,
        copies: bool = False,
        host: bool = False,
        scatter: bool = False,
        times: int = 1,
    ):
        self.pieces = [_Piece(p, sharing, lr, copies, host) for p in parameters]
        self.host, self.times = host, times
        if scatter:
            for piece in self.pieces:
                piece.parameter.register_post_accumulate_grad_hook(piece.reduce)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for piece in self.pieces:
            piece.parameter.grad = piece.gradient = None

    def step(self) -> None:
        """Update each parameter, and gather it from those who have updated its other pieces."""
        for piece in self.pieces:
            piece.step(self.times)

    def gradients(self) -> list[Tensor]:
        """Gradients that are there: whole ones, or this rank's pieces."""
        found = [(piece.gradient, piece.parameter.grad) for piece in self.pieces]
        return [to_local(each) for both in found for each in both if each is not None]

    def states(self) -> list[Tensor]:
        """Adam's moments, and the copies in 32 bits."""
        found: list[Tensor] = [piece.held for piece in self.pieces if piece.copied]
        for piece in self.pieces:
            state = piece.adam.state.get(piece.held, {})
            found += [v for v in state.values() if isinstance(v, Tensor) and v.dim()]
        return found


class _Piece:
    """One parameter, and the piece of it that this rank updates."""

    def __init__(
        self, parameter: nn.Parameter, sharing: Sharing, lr: float, copies: bool, host: bool
    ):
        self.parameter, self.sharing = parameter, sharing
        self.rank, self.ranks = sharing.place
        self.flat = to_local(parameter.detach()).view(-1)
        self.size = -(-self.flat.numel() // self.ranks)
        mine = self.cut(self.flat)
        held = mine.float() if copies else mine
        held = held.to("cpu", copy=True) if host else held
        self.copied = held is not mine
        self.held = nn.Parameter(held)
        # each alone: torch would update all at once on a GPU, with temporaries as large as all
        self.adam = torch.optim.AdamW([self.held], lr=lr, foreach=False)
        self.gradient: Tensor | None = None

    def cut(self, flat: Tensor) -> Tensor:
        """This rank's piece of something `flat`."""
        begin = min(self.rank * self.size, flat.numel())
        return flat[begin : begin + self.size]

    def padded(self, flat: Tensor, size: int) -> Tensor:
        """`flat`, filled up to `size`."""
        missing = size - flat.numel()
        return nn.functional.pad(flat, (0, missing)) if missing else flat

    def reduce(self, parameter: Tensor) -> None:
        """Average the gradient, of which this rank keeps its piece."""
        whole = to_local(summed(self.parameter)).view(-1)
        self.parameter.grad = None
        piece = whole
        if self.sharing.group is not None:
            piece = whole.new_empty(self.size)
            whole = self.padded(whole, self.size * self.ranks)
            dist.reduce_scatter_tensor(piece, whole, group=self.sharing.group)
            piece /= self.ranks
        if self.sharing.others is not None:
            dist.all_reduce(piece, group=self.sharing.others)
            piece /= dist.get_world_size(self.sharing.others)
        self.gradient = piece if self.gradient is None else self.gradient.add_(piece)

    def step(self, times: int) -> None:
        """Update the piece; then gather the others."""
        if self.gradient is not None:
            gradient = self.gradient[: self.held.numel()].div_(times)
        elif self.parameter.grad is not None:
            gradient = self.cut(to_local(self.parameter.grad).view(-1))
        else:
            return
        self.held.grad = gradient.to(self.held)
        self.adam.step()
        self.held.grad = None
        with torch.no_grad():
            if self.copied:
                self.cut(self.flat).copy_(self.held)
            if self.ranks > 1:
                self.gather()

    def gather(self) -> None:
        """Everybody's pieces, in place."""
        whole, mine = self.flat, self.cut(self.flat)
        if self.size * self.ranks != whole.numel():
            whole = whole.new_empty(self.size * self.ranks)
        dist.all_gather_into_tensor(
            whole, self.padded(mine, self.size).clone(), group=self.sharing.group
        )
        if whole is not self.flat:
            self.flat.copy_(whole[: self.flat.numel()])
