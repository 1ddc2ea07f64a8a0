"""Which variants of the training step give the step of one process, on which layouts?

Each variant is tried on each layout beside the whole model: loss falls with most of the wrong ones.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.mesh.building import fill, make_plan
from rankbook.parallel.mesh.layout import Layout
from rankbook.parallel.mesh.sequence import context_parallel
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.pipeline.stages import keep_stage
from rankbook.parallel.trials.outcomes import CANNOT, Outcome, run_trial
from rankbook.parallel.trials.trial import TrialSetup
from rankbook.parallel.trials.variants import Variant, find_variant

LAYERS = 4
MICROBATCHES = 2
ROWS = 16


@dataclass(frozen=True, kw_only=True)
class LayoutOutcome(Outcome):
    """What came out of a layout that was put together in a way."""

    layout: str
    way: str


def try_layout(
    layout: str, way: str, steps: int = 2, timeout: float = 20.0, layers: int = LAYERS
) -> LayoutOutcome:
    """Train a small model for `steps` on `layout`, put together in this way; say what came out.

    layout: "pp=2,dp=2,tp=2", or with cp; who shares a copy is the variant's. way: one of
    `LAYOUT_VARIANTS`. layers: of the model, as many as the pipeline has stages or more. steps,
    timeout: see `run_trial`. Compared are clipped gradients.

    Call it on all of the layout's ranks. Raises ValueError for an unknown way or layout, and for
    another number of ranks.
    """
    made, parsed = find_variant(way), Layout.parse(layout)
    if parsed.ep > 1:
        raise ValueError(f"the model tried here has no experts to divide; leave ep out of {layout}")
    if dist.get_world_size() != parsed.ranks:
        world = dist.get_world_size()
        raise ValueError(f"{layout} takes {parsed.ranks} ranks, but world_size is {world}")
    try:
        parsed = made.layout(parsed)
    except ValueError as error:
        found = Outcome(verdict=CANNOT, message=str(error))
    else:
        found = run_trial(_setup(parsed, made, layers), steps, timeout)
    return LayoutOutcome(layout=layout, way=way, **vars(found))


def _setup(layout: Layout, variant: Variant, layers: int) -> TrialSetup[ShardedModel]:
    config = TransformerConfig(48, d_model=32, d_hidden=64, heads=8, layers=layers, max_length=8)

    def build(mesh: DeviceMesh) -> ShardedModel:
        plan = make_plan(layout, "gpipe", MICROBATCHES)
        (index,) = plan.stages_of(mesh["pp"].get_local_rank())
        with torch.device("meta"):
            stage = keep_stage(TransformerLM(config), index, plan.stages)
        variant.cut(stage, mesh)
        if layout.cp > 1:
            context_parallel(stage, mesh["cp"].get_group())
        stage.to_empty(device="cpu")
        fill(stage, 0)
        return ShardedModel(plan, {index: variant.wrap(stage, layout, mesh)}, mesh, config, layout)

    return TrialSetup(
        config, layout.sizes, (ROWS, 8), build, variant.share, variant.average, variant.clip
    )
