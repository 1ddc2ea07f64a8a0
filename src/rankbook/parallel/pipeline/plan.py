"""What a pipeline needs to be told, checked before any rank talks to another."""

from dataclasses import dataclass
from typing import cast

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rankbook.models.transformer import TransformerConfig
from rankbook.parallel.pipeline.schedules import Schedule, find_schedule


@dataclass(frozen=True)
class PipelinePlan:
    """How a batch is worked on: `replicas` pipelines, each of `ranks` ranks, run by a `schedule`.

    schedule: a name of `rankbook.parallel.pipeline.schedule_names()`. microbatches: into how many
    parts each pipeline cuts its share of the batch. stages: of the whole model; None means one per
    rank, or two for the schedules made for several. Raises ValueError where the schedule cannot run
    so.

    The checks know nothing of other ranks: each rank makes the same plan, checks the same batch
    and raises the same sentence, instead of leaving the others waiting.
    """

    schedule: str
    ranks: int
    microbatches: int
    replicas: int = 1
    stages: int = cast(int, None)  # a number as soon as the plan is made

    def __post_init__(self):
        kind = find_schedule(self.schedule)
        if self.stages is None:
            object.__setattr__(self, "stages", kind.stages_per_rank * self.ranks)
        kind.check(self.ranks, self.stages, self.microbatches)
        if self.replicas < 1:
            raise ValueError(f"replicas is {self.replicas}; it must be 1 or more")

    @property
    def kind(self) -> Schedule:
        """The schedule that the plan names."""
        return find_schedule(self.schedule)

    def stages_of(self, rank: int) -> list[int]:
        """The indices of the stages on `rank`, counted along the pipeline from 0."""
        return self.kind.stages_of(rank, self.ranks, self.stages)

    def mesh(self, device_type: str, world_size: int | None = None) -> DeviceMesh:
        """A mesh (pp, dp): `mesh["pp"]` is this rank's pipeline, `mesh["dp"]` its stage's replicas.

        device_type: "cpu" or "cuda". world_size: that of the process group, if None. Replicas of a
        stage are neighbours in rank: what they exchange, all gradients, is more than what stages
        pass on. Raises ValueError if there are not ranks x replicas ranks. Source:
        https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.device_mesh.init_device_mesh
        """
        if world_size is None:
            world_size = torch.distributed.get_world_size()
        if world_size != self.ranks * self.replicas:
            raise ValueError(
                f"{self.ranks} ranks per pipeline x {self.replicas} replicas need "
                f"{self.ranks * self.replicas} ranks, but world_size is {world_size}; "
                "start as many, or change the plan"
            )
        return init_device_mesh(
            device_type, (self.ranks, self.replicas), mesh_dim_names=("pp", "dp")
        )

    def check_model(self, config: TransformerConfig, vocab_size: int | None = None) -> None:
        """Raise ValueError if stages would be empty, or ids have no row in the embedding.

        config: of the whole model. vocab_size: of the data, where it is known.
        """
        if self.stages > config.layers:
            raise ValueError(
                f"{self.stages} stages cannot share {config.layers} layers; "
                f"use {config.layers} stages or fewer"
            )
        if vocab_size is not None and vocab_size > config.vocab_size:
            raise ValueError(
                f"the data's vocabulary has {vocab_size} entries, the model's embedding "
                f"{config.vocab_size} rows; make the model with vocab_size={vocab_size}"
            )

    def check_batch(self, batch_size: int) -> None:
        """Raise ValueError unless a whole batch of `batch_size` falls into equal microbatches.

        Unequal ones would weigh a token more in a small microbatch than in a large one.
        """
        parts = self.replicas * self.microbatches
        if batch_size < 1 or batch_size % parts:
            raise ValueError(
                f"a batch of {batch_size} is not divisible by {self.replicas} replicas x "
                f"{self.microbatches} microbatches; use a multiple of {parts}"
            )

    def share(self, batch: torch.Tensor, replica: int) -> torch.Tensor:
        """The rows of the whole `batch` (batch, ...) that pipeline number `replica` works on."""
        self.check_batch(len(batch))
        return batch.chunk(self.replicas)[replica]


def check_ids(ids: torch.Tensor, rows: int, what: str) -> None:
    """Raise ValueError if one of `ids` (any shape) is not in [0, rows). `what`: what they are."""
    low, high = ids.min().item(), ids.max().item()
    if low < 0 or high >= rows:
        wrong = low if low < 0 else high
        raise ValueError(
            f"id {wrong} in {what} is outside of the model's vocabulary, 0 to {rows - 1}; "
            "make the model with the data's vocab_size"
        )
