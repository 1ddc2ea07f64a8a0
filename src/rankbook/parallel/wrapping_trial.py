"""One wrapping of a pipeline's stages under one schedule, and the unsplit model beside it."""

import datetime
import gc
import math
from dataclasses import replace

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from rankbook.core.dtensor import to_local
from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.pipeline import Pipeline
from rankbook.parallel.plan import PipelinePlan
from rankbook.parallel.replicas import average_gradients
from rankbook.parallel.stages import stage_module
from rankbook.parallel.wrappings import Wrapping

SIZES = TransformerConfig(50, d_model=32, d_hidden=64, heads=4, layers=8, max_length=8)


class Trial:
    """The two, step by step, on the four ranks of a `plan` of 2 ranks x 2 replicas.

    Every rank calls the same methods: `build`, `step` as often as wanted, `close` in any case.
    timeout: seconds that a rank waits for another. layers: of the model.
    """

    def __init__(self, plan: PipelinePlan, wrapping: Wrapping, timeout: float, layers: int):
        self.plan, self.wrapping = plan, wrapping
        self.sizes = replace(SIZES, layers=layers)
        self.groups, self.mesh = _mesh(timeout)
        self.batches = torch.Generator().manual_seed(1)

    def build(self) -> None:
        """The unsplit model, and this rank's wrapped stages with the same values."""
        self.whole = TransformerLM(self.sizes)
        initialise(self.whole, 0)
        indices = self.plan.stages_of(self.mesh["pp"].get_local_rank())
        bare = {
            i: stage_module(self.sizes, i, self.plan.stages, torch.device("cpu")) for i in indices
        }
        wrapped = {i: self.wrapping.apply(module, self.mesh["dp"]) for i, module in bare.items()}
        self.pipeline = Pipeline(self.plan, wrapped, self.mesh, token_loss, self.sizes)
        # DDP puts "module." before the names, so they are asked of what is inside it
        self.parameters = {
            name: parameter
            for module in bare.values()
            for name, parameter in module.named_parameters()
        }
        # plain SGD: an error in a gradient stays as large as it is
        self.optimizers = [
            torch.optim.SGD(parameters, lr=0.1)
            for parameters in (self.whole.parameters(), self.parameters.values())
        ]

    def step(self) -> tuple[float, int]:
        """One optimizer step of both; the relative error of the gradient, missing gradients.

        Whatever came out, the next step begins with the unsplit model's parameters.
        """
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        rows = 2 * self.plan.replicas * self.plan.microbatches
        text = torch.randint(self.sizes.vocab_size, (rows, 7), generator=self.batches)
        tokens, targets = text[:, :-1], text[:, 1:]
        token_loss(self.whole(tokens), targets).backward()
        replica = self.mesh["dp"].get_local_rank()
        self.pipeline.step(*(self.plan.share(ids, replica) for ids in (tokens, targets)))
        if self.wrapping.average_after_step:
            average_gradients(self.parameters.values(), self.mesh["dp"].get_group())
        compared = self._compare()
        for optimizer in self.optimizers:
            optimizer.step()
        self._set_right()
        return compared

    @torch.no_grad()
    def _compare(self) -> tuple[float, int]:
        """Relative error of the gradient, missing gradients: of all stages, of all replicas."""
        total = torch.zeros(3, dtype=torch.float64)
        right = {name: _gradient(p) for name, p in self.whole.named_parameters()}
        for name, parameter in self.parameters.items():
            mine = parameter.grad
            expected = _part_here(right[name], parameter if mine is None else mine)
            difference = expected if mine is None else to_local(mine) - expected
            total += torch.tensor([difference.norm() ** 2, expected.norm() ** 2, mine is None])
        for group in self.groups.values():
            dist.all_reduce(total, group=group)
        wrong, whole, missing = total.tolist()
        return math.sqrt(wrong / whole), int(missing) // self.plan.replicas

    @torch.no_grad()
    def _set_right(self) -> None:
        """Give the stages the parameters of the unsplit model."""
        right = dict(self.whole.named_parameters())
        for name, parameter in self.parameters.items():
            to_local(parameter).copy_(_part_here(right[name], parameter))

    def close(self, failed: bool) -> None:
        """End the groups; if the trial `failed` here, ranks that wait in one of them are told so.

        A connection is closed with the last reference to its group, so all of them have to go.
        """
        for group in self.groups.values():
            dist.destroy_process_group(group)
        self.__dict__.clear()
        if failed:
            gc.collect()


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None, "the unsplit model's backward pass reaches every parameter"
    return parameter.grad


def _part_here(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The part of `whole` that is here of a tensor laid out as `like`."""
    if not isinstance(like, DTensor):
        return whole
    layout = like.device_mesh, like.placements
    return distribute_tensor(whole, *layout, src_data_rank=None).to_local()


def _mesh(timeout: float) -> tuple[dict[str, dist.ProcessGroup], DeviceMesh]:
    """The groups of this rank, and the mesh (pp, dp) of 2 x 2 ranks on them."""
    ranks = torch.arange(4).view(2, 2)
    wait = datetime.timedelta(seconds=timeout)
    lines = {"pp": ranks.T.tolist(), "dp": ranks.tolist()}
    groups = {name: _own_group(of, wait) for name, of in lines.items()}
    of_dims = list(groups.values())
    return groups, DeviceMesh.from_group(of_dims, "cpu", mesh=ranks, mesh_dim_names=tuple(groups))


def _own_group(of: list[list[int]], wait: datetime.timedelta) -> dist.ProcessGroup:
    """Of new groups of ranks, the one that this rank is in."""
    group, _ = dist.new_subgroups_by_enumeration(of, timeout=wait, backend="gloo")
    assert isinstance(group, dist.ProcessGroup), "every rank is in one of them"
    return group
