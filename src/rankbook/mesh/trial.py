"""One way on one layout, and the whole model beside it."""

import datetime
import gc
import math
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, debug, distribute_tensor
from torch.nn.utils import clip_grad_norm_

from rankbook.core.agreement import agree, gather
from rankbook.core.dtensor import to_local
from rankbook.mesh.building import fill, make_plan
from rankbook.mesh.layout import Layout
from rankbook.mesh.sequence import context_parallel
from rankbook.mesh.sharded_model import ShardedModel
from rankbook.mesh.ways import MAX_NORM, Way
from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.clipping import cuts, summed
from rankbook.parallel.stages import cut

LAYERS = 4
MICROBATCHES = 2
ROWS = 16


class Trial:
    """The two, step by step, on the ranks of a `layout`; `way` says how they are put together.

    Every rank calls the same methods: `build`, the `parts` of a step as often as wanted, `close` in
    any case. timeout: seconds that a rank waits for another. layers: the model's. errors, norms: of
    each step that was finished, the relative errors of the clipped gradient, and of its norm before
    clipping.
    """

    def __init__(self, layout: Layout, way: Way, timeout: float, layers: int = LAYERS):
        self.sizes = TransformerConfig(
            48, d_model=32, d_hidden=64, heads=8, layers=layers, max_length=8
        )
        self.way, self.layout = way, way.layout(layout)
        self.groups, self.mesh = _mesh(layout, timeout)
        self.errors: list[float] = []
        self.norms: list[float] = []
        self.batches = torch.Generator().manual_seed(1)

    def build(self) -> None:
        """The whole model, and this rank's part of it, with the same values."""
        self.whole = TransformerLM(self.sizes)
        initialise(self.whole, 0)
        plan = make_plan(self.layout, "gpipe", MICROBATCHES)
        (index,) = plan.stages_of(self.mesh["pp"].get_local_rank())
        with torch.device("meta"):
            stage = cut(TransformerLM(self.sizes), index, plan.stages)
        self.way.cut(stage, self.mesh)
        if self.layout.cp > 1:
            context_parallel(stage, self.mesh["cp"].get_group())
        stage.to_empty(device="cpu")
        fill(stage, 0)
        # DDP puts "module." before the names, so they are asked of what is inside it
        wrapped = self.way.wrap(stage, self.layout, self.mesh)
        self.named = dict(stage.named_parameters())
        self.part = ShardedModel(plan, {index: wrapped}, self.mesh, self.sizes, self.layout)
        # plain SGD: an error in a gradient stays as large as it is
        self.optimizers = [
            torch.optim.SGD(parameters, lr=0.1)
            for parameters in (self.whole.parameters(), self.named.values())
        ]

    @property
    def parts(self) -> list[Callable[[], None]]:
        """Those of one optimizer step of both; all ranks begin each together."""
        return [self._backward, self._average, self._clip, self._compare]

    def _backward(self) -> None:
        if self.errors:
            self._go_on()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        text = torch.randint(self.sizes.vocab_size, (ROWS, 9), generator=self.batches)
        tokens, targets = text[:, :-1], text[:, 1:]
        token_loss(self.whole(tokens), targets).backward()
        self.part.step(*(self.way.share(ids, self.mesh) for ids in (tokens, targets)))

    def _average(self) -> None:
        self.way.average(self.part)

    def _clip(self) -> None:
        right = clip_grad_norm_(self.whole.parameters(), MAX_NORM).item()
        self.off = abs(self.way.clip(self.part).item() / right - 1)

    def _compare(self) -> None:
        self.norms.append(max(gather(self.off)))
        total = agree(self._squares)  # no rank waits for one that raised
        dist.all_reduce(total)
        wrong, whole = total.tolist()
        self.errors.append(math.sqrt(wrong / whole))

    def _go_on(self) -> None:
        """Whatever came out, the next step begins with the whole model's parameters."""
        for optimizer in self.optimizers:
            optimizer.step()
        self._set_right()

    @torch.no_grad()
    def _squares(self) -> torch.Tensor:
        """Of what the optimizer is given here: what is wrong, and what would be right."""
        total = torch.zeros(2, dtype=torch.float64)
        right = dict(self.whole.named_parameters())
        for name, parameter in self.named.items():
            like = parameter if parameter.grad is None else summed(parameter)
            expected = to_local(_laid_out(_gradient(right[name]), like))
            difference = expected if parameter.grad is None else to_local(like) - expected
            # what n ranks hold alike, each of them counts as 1 / n
            alike = cuts(like) / (self.mesh.size() // self.mesh["pp"].size())
            total += alike * torch.tensor([difference.norm() ** 2, expected.norm() ** 2])
        return total

    @torch.no_grad()
    def _set_right(self) -> None:
        """Give the parts the parameters of the whole model."""
        right = dict(self.whole.named_parameters())
        for name, parameter in self.named.items():
            to_local(parameter).copy_(to_local(_laid_out(right[name].detach(), parameter)))

    def close(self) -> None:
        """End the groups; ranks that wait in one of them are told so.

        A connection is closed with the last reference to its group, so all of them have to go.
        """
        for group in self.groups:
            dist.destroy_process_group(group)
        # DTensor remembers results with their mesh, and takes a mesh of the same ranks for the same
        debug._clear_sharding_prop_cache()
        kept = {"groups": [], "errors": self.errors, "norms": self.norms}
        self.__dict__.clear()
        self.__dict__.update(kept)
        gc.collect()


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None, "the whole model's backward pass reaches every parameter"
    return parameter.grad


def _laid_out(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`whole`, cut as `like`."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _mesh(layout: Layout, timeout: float) -> tuple[list[dist.ProcessGroup], DeviceMesh]:
    """The groups of this rank in each dimension, and the mesh of them, as `Layout.mesh`."""
    names, sizes = zip(*layout.sizes.items(), strict=True)
    ranks = torch.arange(layout.ranks).view(sizes)
    wait = datetime.timedelta(seconds=timeout)
    groups = []
    for dim, size in enumerate(sizes):
        lines = ranks.movedim(dim, -1).reshape(-1, size).tolist()
        group, _ = dist.new_subgroups_by_enumeration(lines, timeout=wait, backend="gloo")
        assert isinstance(group, dist.ProcessGroup), "every rank is in one of them"
        groups.append(group)
    mesh = DeviceMesh.from_group(groups, "cpu", mesh=ranks, mesh_dim_names=names)
    return groups, mesh
