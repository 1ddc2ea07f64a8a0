"""One trial: a model on a mesh of ranks, and the same model in one process beside it.

What is tried is data: the model, its mesh, how it is put together and what is done in a step.
"""

import datetime
import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, debug, distribute_tensor
from torch.nn.utils import clip_grad_norm_

from rankbook.core.agreement import agree, gather
from rankbook.core.dtensor import to_local
from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.mesh.clipping import cuts, summed

MAX_NORM = 0.1  # well below the norm of the trials' gradients: clipping always scales


class Trained(Protocol):
    """One rank's part of a model: a `Pipeline` or a `ShardedModel`."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor: ...


P = TypeVar("P", bound=Trained)


@dataclass(frozen=True)
class TrialSetup(Generic[P]):
    """What is tried: a model on a mesh, and what its ranks do in a training step.

    mesh: the sizes of its dimensions, with "pp"; all ranks. batch: (rows, tokens of each).
    build: this rank's part of the model on the mesh, with the values that `initialise` gives it of
    seed 0. share: the rows of the whole batch that this rank works on. average: what is left to do
    with the gradients after the backward passes. clip: scales them to `MAX_NORM`, and returns the
    norm before; None: they are not clipped.
    """

    model: TransformerConfig
    mesh: dict[str, int]
    batch: tuple[int, int]
    build: Callable[[DeviceMesh], P]
    share: Callable[[torch.Tensor, DeviceMesh], torch.Tensor]
    average: Callable[[P], None]
    clip: Callable[[P], torch.Tensor] | None = None


class Trial(Generic[P]):
    """The model of a `setup` on its ranks and the whole model beside it, step by step.

    Every rank calls the same methods: `build`, the `parts` of a step as often as wanted, `close` in
    any case. timeout: seconds that a rank waits for another. errors, norms: of each step that was
    finished, the relative errors of the gradient, and of its norm before clipping. missing: the
    parameters that had no gradient, in the step where they were most.
    """

    def __init__(self, setup: TrialSetup[P], timeout: float):
        self.setup = setup
        self.groups, self.mesh = _mesh(setup.mesh, timeout)
        self.errors: list[float] = []
        self.norms: list[float] = []
        self.missing = 0
        self.batches = torch.Generator().manual_seed(1)

    def build(self) -> None:
        """The whole model, and this rank's part of it, with the same values."""
        self.whole = TransformerLM(self.setup.model)
        initialise(self.whole, 0)
        self.part = self.setup.build(self.mesh)
        # DDP puts "module." before the names
        self.named = {
            name.removeprefix("module."): parameter
            for name, parameter in self.part.named_parameters()
        }
        # plain SGD: an error in a gradient stays as large as it is
        self.optimizers = [
            torch.optim.SGD(parameters, lr=0.1)
            for parameters in (self.whole.parameters(), self.named.values())
        ]

    @property
    def parts(self) -> list[Callable[[], None]]:
        """Those of one optimizer step of both; all ranks begin each together."""
        clip = [self._clip] if self.setup.clip else []
        return [self._backward, self._average, *clip, self._compare]

    def _backward(self) -> None:
        if self.errors:
            self._go_on()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        rows, length = self.setup.batch
        text = torch.randint(
            self.setup.model.vocab_size, (rows, length + 1), generator=self.batches
        )
        tokens, targets = text[:, :-1], text[:, 1:]
        token_loss(self.whole(tokens), targets).backward()
        self.part.step(*(self.setup.share(ids, self.mesh) for ids in (tokens, targets)))

    def _average(self) -> None:
        self.setup.average(self.part)

    def _clip(self) -> None:
        assert self.setup.clip
        right = clip_grad_norm_(self.whole.parameters(), MAX_NORM).item()
        self.off = abs(self.setup.clip(self.part).item() / right - 1)

    def _compare(self) -> None:
        if self.setup.clip:
            self.norms.append(max(gather(self.off)))
        total = agree(self._squares)  # no rank waits for one that raised
        for group in self.groups:  # of gloo, one a dimension: together all ranks
            dist.all_reduce(total, group=group)
        wrong, whole, missing = total.tolist()
        self.errors.append(math.sqrt(wrong / whole))
        self.missing = max(self.missing, round(missing))

    def _go_on(self) -> None:
        """Whatever came out, the next step begins with the whole model's parameters."""
        for optimizer in self.optimizers:
            optimizer.step()
        self._set_right()

    @torch.no_grad()
    def _squares(self) -> torch.Tensor:
        """Of what the optimizer is given here: what is wrong, would be right, and is missing."""
        total = torch.zeros(3, dtype=torch.float64)
        right = dict(self.whole.named_parameters())
        for name, parameter in self.named.items():
            none = parameter.grad is None
            like = parameter if none else summed(parameter)
            expected = to_local(_laid_out(_gradient(right[name]), like))
            difference = expected if none else to_local(like) - expected
            alike = cuts(like)
            total += torch.tensor(
                [alike * difference.norm() ** 2, alike * expected.norm() ** 2, none]
            )
        # what n ranks hold alike, each of them counts as 1 / n
        return total / (self.mesh.size() // self.mesh["pp"].size())

    @torch.no_grad()
    def _set_right(self) -> None:
        """Give the parts the parameters of the whole model."""
        right = dict(self.whole.named_parameters())
        for name, parameter in self.named.items():
            to_local(parameter).copy_(to_local(_laid_out(right[name].detach(), parameter)))

    def close(self, failed: bool) -> None:
        """End the groups; if the trial `failed` here, ranks that wait in one of them are told so.

        A connection is closed with the last reference to its group, so all of them have to go.
        """
        for group in self.groups:
            dist.destroy_process_group(group)
        # DTensor remembers results with their mesh, and takes a mesh of the same ranks for the same
        debug._clear_sharding_prop_cache()
        kept = {name: getattr(self, name) for name in ("errors", "norms", "missing")}
        self.__dict__.clear()
        self.__dict__.update(kept, groups=[])
        if failed:
            gc.collect()


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None, "the whole model's backward pass reaches every parameter"
    return parameter.grad


def _laid_out(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`whole`, cut as `like`."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _mesh(sizes: dict[str, int], timeout: float) -> tuple[list[dist.ProcessGroup], DeviceMesh]:
    """This rank's own groups in each dimension, and the mesh of them."""
    ranks = torch.arange(math.prod(sizes.values())).view(*sizes.values())
    wait = datetime.timedelta(seconds=timeout)
    groups = []
    for dim, size in enumerate(sizes.values()):
        lines = ranks.movedim(dim, -1).reshape(-1, size).tolist()
        group, _ = dist.new_subgroups_by_enumeration(lines, timeout=wait, backend="gloo")
        assert isinstance(group, dist.ProcessGroup), "every rank is in one of them"
        groups.append(group)
    return groups, DeviceMesh.from_group(groups, "cpu", mesh=ranks, mesh_dim_names=tuple(sizes))
