"""One rank's part of a model on a mesh: its stages, cut among ranks, wrapped for its replicas."""

import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from rankbook.context import cut as cut_sequences
from rankbook.core.dtensor import to_local
from rankbook.mesh.experts import expert_parallel, not_for_fsdp
from rankbook.mesh.layout import Layout
from rankbook.mesh.sequence import context_parallel, shared_mean
from rankbook.mesh.tensor import tensor_parallel
from rankbook.mesh.vocabulary import vocabulary_loss
from rankbook.models.loss import token_loss
from rankbook.models.transformer import (
    Positions,
    TransformerConfig,
    TransformerLM,
    initial_value,
    sinusoids,
)
from rankbook.parallel.pipeline import Pipeline
from rankbook.parallel.plan import PipelinePlan
from rankbook.parallel.replicas import average
from rankbook.parallel.stages import cut

# of logits that somebody might change in place; nobody does
warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")


class Part(Pipeline):
    """One rank's part of a model on the mesh of a `layout`; `build` makes it.

    All that a `Pipeline` has. modules: this rank's stages {index: module}, from `build_stage`, on
    `mesh`, which is `layout.mesh(...)`. `step` leaves gradients that are averaged over replicas
    where these share one copy (`layout.shard`), and this replica's own where not. load: of a model
    with experts, what `rebalance` has said of them after the last `train_step`. alone: replicas
    (dp) do not meet in a step; losses and gradients are this replica's own.
    """

    alone = False

    def __init__(
        self,
        plan: PipelinePlan,
        modules: dict[int, nn.Module],
        mesh: DeviceMesh,
        config: TransformerConfig,
        layout: Layout,
    ):
        loss = token_loss
        if layout.tp > 1:
            loss = vocabulary_loss(config.vocab_size, mesh["tp"].get_group())
        if layout.cp > 1:
            loss = shared_mean(loss, mesh["cp"].get_group())
        super().__init__(plan, modules, mesh, loss, config)
        self.layout = layout
        self.load: dict[str, torch.Tensor] = {}

    @property
    def replica(self) -> int:
        """Which share of a batch is this rank's."""
        return self.layout.replica(self.mesh)

    def mine(self, ids: torch.Tensor) -> torch.Tensor:
        """This rank's part of each sequence: (batch, length / cp) of `ids` (batch, length)."""
        if self.layout.cp == 1:
            return ids
        return cut_sequences(ids, self.layout.cp, self.mesh["cp"].get_local_rank())

    def average(self, loss: torch.Tensor) -> torch.Tensor:
        """The mean of `loss` over all ranks with tokens of their own, in place and returned."""
        for dimension in self.meeting:
            average(loss, self.mesh[dimension].get_group())
        return loss

    @property
    def meeting(self) -> list[str]:
        """The dimensions of the mesh whose ranks have tokens of their own, and meet in a step."""
        together = ("ep", "cp") if self.alone else ("dp", "ep", "cp")
        return [name for name in together if name in self.layout.sizes]

    @property
    def together(self) -> DeviceMesh:
        """Of the mesh, the ranks that train one model: all, or this replica's if `alone`."""
        if not self.alone:
            return self.mesh
        return self.mesh[tuple(name for name in self.layout.sizes if name != "dp")]

    def evaluate(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """As a `Pipeline`'s; parameters that it gathered are shards again."""
        loss = super().evaluate(tokens, targets)
        for module in self.modules.values():
            for part in module.modules():
                if isinstance(part, FSDPModule):  # a root waits for a backward pass to do it
                    part.reshard()
        return loss


def build(
    config: TransformerConfig,
    layout: Layout,
    device: torch.device,
    seed: int = 0,
    schedule: str | None = None,
    microbatches: int | None = None,
    stages: int | None = None,
    mesh: DeviceMesh | None = None,
    change: Callable[[TransformerLM], None] | None = None,
    **sharing,
) -> Part:
    """This rank's part of the model that `initialise` fills from `seed`; on all ranks.

    config: of the whole model, which nobody holds: a rank makes its part only, on `device`.
    schedule: "1f1b" if None. microbatches: of a replica's share of the batch; if None, 1 without
    a pipeline, otherwise 4, or one a stage. stages: of the pipeline, if a rank has several. mesh:
    one that `layout.mesh` has made. change: is called with each stage, which is cut and holds
    nothing yet, before it is shared. sharing: options of `fully_shard`. Raises ValueError, on all
    ranks, where layout, model and schedule do not suit each other.
    """
    plan = make_plan(layout, schedule, microbatches, stages)
    plan.check_model(config)
    layout.check_model(config)
    check_balance(config, plan)
    mesh = mesh or layout.mesh(device.type)
    indices = plan.stages_of(mesh["pp"].get_local_rank())
    modules = {
        i: build_stage(config, i, plan, layout, mesh, device, seed, change, **sharing)
        for i in indices
    }
    return Part(plan, {**modules}, mesh, config, layout)


def build_stage(
    config: TransformerConfig,
    index: int,
    plan: PipelinePlan,
    layout: Layout,
    mesh: DeviceMesh,
    device: torch.device,
    seed: int,
    change: Callable[[TransformerLM], None] | None = None,
    **sharing,
) -> TransformerLM:
    """This rank's part of stage `index`: cut by tensor parallelism, then shared; see `build`."""
    with torch.device("meta"):
        stage = cut(TransformerLM(config), index, plan.stages)
    if layout.tp > 1:
        tensor_parallel(stage, mesh["tp"])
    if config.experts:
        expert_parallel(stage, mesh, plan.microbatches)
    if layout.cp > 1:
        context_parallel(stage, mesh["cp"].get_group())
    if change:
        change(stage)
    if layout.shard > 1:
        shard(stage, layout.sharing(mesh), not plan.kind.splits_backward, **sharing)
    stage = stage.to_empty(device=device)
    fill(stage, seed)
    return stage


def make_plan(
    layout: Layout, schedule: str | None, microbatches: int | None, stages: int | None = None
) -> PipelinePlan:
    """The pipeline's plan under a `layout`; see `build`. Raises ValueError."""
    schedule = schedule or "1f1b"
    microbatches = microbatches or (max(4, stages or layout.pp) if layout.pp > 1 else 1)
    if stages is None:
        return PipelinePlan(schedule, layout.pp, microbatches, layout.replicas)
    return PipelinePlan(schedule, layout.pp, microbatches, layout.replicas, stages)


def check_balance(config: TransformerConfig, plan: PipelinePlan) -> None:
    """Raise ValueError if a loss of the whole batch would be needed for parts of it."""
    if config.balance_weight and plan.microbatches > 1:
        raise ValueError(
            "the balance loss is of the whole batch, and a layer sees one microbatch after the "
            f"other, of {plan.microbatches}; balance the experts by bias, or use 1 microbatch"
        )


def shard(stage: TransformerLM, replicas: DeviceMesh, each_layer: bool, **options) -> None:
    """Share `stage` among `replicas`, `layout.sharing(mesh)`, in place: FSDP2 or HSDP.

    each_layer: gather a layer at a time; wrong under schedules that split the backward pass.
    options: of `fully_shard`.
    """
    if kept := not_for_fsdp(stage):
        options["ignored_params"] = kept
    if each_layer:
        for layer in stage.layers.values():
            fully_shard(layer, mesh=replicas, **options)
    fully_shard(stage, mesh=replicas, **options)


@torch.no_grad()
def fill(stage: TransformerLM, seed: int) -> None:
    """Give `stage` its part of the values that `initialise` gives the whole model.

    One parameter at a time is whole, on the CPU.
    """
    for name, parameter in stage.named_parameters():
        whole = initial_value(name, parameter.shape, seed)
        if isinstance(parameter, DTensor):
            of = parameter.device_mesh, parameter.placements
            whole = distribute_tensor(whole.to(parameter.device), *of, src_data_rank=None)
        to_local(parameter).copy_(to_local(whole))
    for module in stage.modules():
        if isinstance(module, Positions):
            to_local(module.table).copy_(sinusoids(*module.table.shape))
