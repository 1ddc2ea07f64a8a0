"""Build one rank's part of a model on a mesh: its stages, sharded, wrapped for its replicas."""

import warnings
from collections.abc import Callable

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from rankbook.core.dtensor import to_local
from rankbook.models.transformer import (
    Positions,
    TransformerConfig,
    TransformerLM,
    initial_value,
    sinusoids,
)
from rankbook.parallel.mesh.experts import expert_parallel, not_for_fsdp
from rankbook.parallel.mesh.layout import Layout
from rankbook.parallel.mesh.sequence import context_parallel
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.mesh.tensor import tensor_parallel
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.stages import keep_stage

# of logits that somebody might change in place; nobody does
warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")


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
) -> ShardedModel:
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
    return ShardedModel(plan, {**modules}, mesh, config, layout)


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
        stage = keep_stage(TransformerLM(config), index, plan.stages)
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
