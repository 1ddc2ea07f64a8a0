"""What the ranks of test_three_dimensions_chapter.py do."""

from dataclasses import replace

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout, build
from rankbook.parallel.mesh.stepping import accumulate
from rankbook.parallel.trials import layout_trials as trials
from rankbook.parallel.trials import try_layout
from rankbook.parallel.trials.variants import Variant
from tests.waiting import SOON

CONFIG = TransformerConfig(50, d_model=32, d_hidden=64, heads=4, layers=4, max_length=8)


def try_all(asked: list[tuple[str, str]]) -> list[dict]:
    """The outcomes of trials (layout, way), as plain values."""
    return [vars(try_layout(*each)) for each in asked]


def raise_on_one() -> list[dict]:
    """A way that raises on one rank only, while others wait for it; then one that works.

    Nobody's waiting ends by a time-out before all are ended.
    """
    known = trials.find_variant
    try:
        trials.find_variant = lambda name: Variant(name, clip=_raise_on_stage_1)
        broken = try_layout("pp=2,dp=2,tp=2", "broken", timeout=2 * SOON)
    finally:
        trials.find_variant = known
    return [vars(broken), vars(try_layout("pp=2,dp=2,tp=2", "FSDP2", steps=1))]


def _raise_on_stage_1(part):
    if part.mesh["pp"].get_local_rank():
        raise RuntimeError("this stage is broken")
    return torch.zeros(())


def ddp_on_replicas() -> list[dict]:
    """DDP on plain replicas: under a schedule of two microbatches; of one, which needs no arming;
    and of two, with buckets that are never rebuilt."""
    known, microbatches = trials.find_variant, trials.MICROBATCHES
    try:
        found = [try_layout("dp=2", "DDP", layers=2)]
        trials.MICROBATCHES = 1
        found.append(try_layout("dp=2", "DDP", layers=2))
        trials.MICROBATCHES = microbatches
        trials.find_variant = lambda name: replace(known(name), wrap=_never_rebuilt)
        found.append(try_layout("dp=2", "DDP", layers=2))
    finally:
        trials.find_variant, trials.MICROBATCHES = known, microbatches
    return [vars(outcome) for outcome in found]


def _never_rebuilt(stage, layout, mesh):
    group = mesh["dp"].get_group()
    return DistributedDataParallel(stage, process_group=group, find_unused_parameters=True)


def clip_by_torch() -> dict:
    """The norm that torch's function finds on this rank, of DTensors only."""
    part = build(CONFIG, Layout(2, 2, 2), torch.device("cpu"))
    text = torch.randint(50, (16, 9), generator=torch.Generator().manual_seed(1))
    accumulate(part, text[:, :-1], text[:, 1:])
    return {"norm": nn.utils.clip_grad_norm_(part.parameters(), 0.1).full_tensor().item()}


def told() -> list[str]:
    """What torch's clipping raises for a mixture: without fully_shard, and with it."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = []
    for share in (False, True):
        pair = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        parallelize_module(pair, mesh["tp"], {"1": ColwiseParallel()})
        if share:
            fully_shard(pair, mesh=mesh["dp"])
        pair(torch.ones(2, 8)).sum().backward()
        try:
            nn.utils.clip_grad_norm_(pair.parameters(), 0.1)
        except (RuntimeError, ValueError) as error:
            found.append(str(error))
    return found
