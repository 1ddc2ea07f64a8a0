"""Variants of a training step with pipeline, data and tensor parallelism: right ones, met ones.

Each is one object, in `KNOWN`, that differs from the right step in what its name says. What comes
out of them on which layout, `rankbook.parallel.trials.try_layout` finds out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from rankbook.core.dtensor import to_local
from rankbook.models.transformer import TransformerLM
from rankbook.parallel.mesh.building import shard
from rankbook.parallel.mesh.clipping import clip_grad_norm, summed
from rankbook.parallel.mesh.layout import Layout
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.mesh.stepping import reduce_gradients
from rankbook.parallel.mesh.tensor import tensor_parallel
from rankbook.parallel.replicas.averaging import average_gradients
from rankbook.parallel.trials.trial import MAX_NORM


def cut(stage: TransformerLM, mesh: DeviceMesh) -> None:
    """Cut `stage` among the ranks of `mesh["tp"]`, in place."""
    if mesh["tp"].size() > 1:
        tensor_parallel(stage, mesh["tp"])


def wrap(stage: TransformerLM, layout: Layout, mesh: DeviceMesh) -> nn.Module:
    """`stage`, shared among the replicas that share one copy; what the pipeline is to hold."""
    if layout.shard > 1:
        shard(stage, layout.sharing(mesh), each_layer=True)
    return stage


def share(ids: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """The rows of the whole batch `ids` that this rank's replica works on."""
    return ids.chunk(mesh["dp"].size())[mesh["dp"].get_local_rank()]


def clip(part: ShardedModel) -> torch.Tensor:
    """Clip by the norm of the whole model, and return it."""
    return clip_grad_norm(part.parameters(), MAX_NORM, part.mesh)


@dataclass(frozen=True)
class Variant:
    """A variant of the training step; each field replaces one function of the right step.

    shared: of how many replicas one copy is shared, by their number.
    """

    name: str
    shared: Callable[[int], int] = lambda dp: 1
    cut: Callable[[TransformerLM, DeviceMesh], None] = cut
    wrap: Callable[[TransformerLM, Layout, DeviceMesh], nn.Module] = wrap
    share: Callable[[torch.Tensor, DeviceMesh], torch.Tensor] = share
    average: Callable[[ShardedModel], None] = reduce_gradients
    clip: Callable[[ShardedModel], torch.Tensor] = clip

    def layout(self, layout: Layout) -> Layout:
        """`layout`, its replicas sharing as they do here. Raises ValueError if they cannot."""
        shard = self.shared(layout.dp)
        if shard < 1:
            raise ValueError(f"{self.name} takes 4 replicas or more, not dp={layout.dp}")
        return replace(layout, shard=shard)


def _all(dp: int) -> int:
    return dp


def _pairs(dp: int) -> int:
    return 2 if dp >= 4 else 0


def _wrap_first(stage: TransformerLM, mesh: DeviceMesh) -> None:
    fully_shard(stage, mesh=mesh["dp"])
    cut(stage, mesh)


def _over_stage(stage: TransformerLM, layout: Layout, mesh: DeviceMesh) -> nn.Module:
    fully_shard(stage, mesh=mesh["dp", "tp"])
    return stage


def _ddp(stage: TransformerLM, layout: Layout, mesh: DeviceMesh) -> nn.Module:
    # one that raises is kept by its traceback; what it holds is ended with the groups
    return DistributedDataParallel(stage, process_group=mesh["dp"].get_group())


def _leave(part: ShardedModel) -> None:
    return None


def _by_rank(ids: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    return ids.chunk(mesh.size())[dist.get_rank()]


def _average_stage(part: ShardedModel) -> None:
    reduce_gradients(part)
    average_gradients(part.parameters(), part.mesh["tp"].get_group())


def _divide_by_world(part: ShardedModel) -> None:
    reduce_gradients(part)
    for parameter in part.parameters():
        to_local(summed(parameter)).div_(part.mesh.size() / part.mesh["dp"].size())


def _torch_clip(part: ShardedModel) -> torch.Tensor:
    norm = nn.utils.clip_grad_norm_(part.parameters(), MAX_NORM)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def _clip_pieces(part: ShardedModel) -> torch.Tensor:
    pieces = [to_local(summed(p)) for p in part.parameters()]
    norm = torch.stack([piece.square().sum() for piece in pieces]).sum()
    dist.all_reduce(norm)
    norm.sqrt_()
    for piece in pieces:
        piece.mul_((MAX_NORM / norm).clamp(max=1.0))
    return norm


def _cut_without_norms(stage: TransformerLM, mesh: DeviceMesh) -> None:
    """Tensor parallelism as first published: the stream is whole on every rank, norms are plain."""
    if mesh["tp"].size() == 1:
        return
    styles: dict[str, ParallelStyle] = {n: ColwiseParallel() for n in ("q", "k", "v", "up")}
    styles |= {name: RowwiseParallel() for name in ("out", "down")}
    for layer in stage.layers.values():
        parallelize_module(layer, mesh["tp"], styles, src_data_rank=None)
    ends: dict[str, ParallelStyle] = {}
    if stage.embedding is not None:
        ends["embedding"] = RowwiseParallel(input_layouts=Replicate())
    if stage.head is not None:
        ends["head"] = ColwiseParallel()
    parallelize_module(stage, mesh["tp"], ends, src_data_rank=None)


def _positions_from_0(stage: TransformerLM, mesh: DeviceMesh) -> None:
    """As `cut`; but each rank adds to its part of the sequences the positions from 0 on."""
    positions, stage.positions = stage.positions, None
    cut(stage, mesh)
    stage.positions = positions


KNOWN = {
    variant.name: variant
    for variant in (
        Variant("all_reduce"),
        Variant("FSDP2", _all),
        Variant("HSDP", _pairs),
        Variant("norms not cut", cut=_cut_without_norms),
        Variant("DDP", wrap=_ddp, average=_leave),
        Variant("FSDP2, then tp", cut=_wrap_first, average=_leave),
        Variant("FSDP2 over dp x tp", _all, wrap=_over_stage),
        Variant("batch by rank", share=_by_rank),
        Variant("positions from 0", cut=_positions_from_0),
        Variant("average over tp", average=_average_stage),
        Variant("divide by world", average=_divide_by_world),
        Variant("torch's clipping", clip=_torch_clip),
        Variant("torch's, norms not cut", cut=_cut_without_norms, clip=_torch_clip),
        Variant("torch's, that + FSDP2", _all, cut=_cut_without_norms, clip=_torch_clip),
        Variant("sum of pieces", clip=_clip_pieces),
        Variant("sum of pieces, FSDP2", _all, clip=_clip_pieces),
    )
}
LAYOUT_VARIANTS = tuple(KNOWN)


def find_variant(name: str) -> Variant:
    """The variant called `name`, one of `LAYOUT_VARIANTS`. Raises ValueError for another."""
    if name not in KNOWN:
        raise ValueError(f"way {name!r} is unknown; use {', '.join(LAYOUT_VARIANTS)}")
    return KNOWN[name]
