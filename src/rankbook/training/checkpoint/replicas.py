"""Checkpoints of replicas that train alone between meetings: what they agreed on, and each's own.

Such a checkpoint is one of a pipeline, of the model that all agreed on and of the outer optimizer.
Beside them, it has each replica's parameters and the moments of its inner optimizer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from rankbook.core.agreement import agree
from rankbook.training.checkpoint.pipeline import (
    PipelineCheckpoints,
    PipelineSaved,
    Stages,
    capture_stages,
    fill_stages,
    tensors_by_name,
)
from rankbook.training.checkpoint.state import kinds, restore_rng


@dataclass(frozen=True)
class Replica:
    """One of `count` replicas that train alone, and what all of them agreed on.

    stages: of this replica. agreed: the parameters that all agreed on, by the one in `stages` that
    each stands for. outer: the optimizer over them. index: which replica it is, from 0.
    """

    stages: Stages
    agreed: Mapping[nn.Parameter, nn.Parameter]
    outer: Optimizer
    index: int
    count: int

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As of any `Stages`: those that all agreed on."""
        for name, parameter in self.stages.named_parameters():
            yield name, self.agreed[parameter]

    @torch.no_grad()
    def begin_with_agreed(self) -> None:
        """Forget what this replica has trained alone."""
        for parameter, value in self.agreed.items():
            parameter.copy_(value)


def capture_replica(replica: Replica, inner: Optimizer, position: dict | None = None) -> dict:
    """What this rank has of a model whose replicas train alone; on all ranks.

    inner: over the parameters of the replica's stages. position: as of `capture_stages`.
    """
    state = capture_stages(replica, replica.outer, position)
    return state | {
        "kinds": kinds({"optimizer": replica.outer, "inner optimizer": inner}),
        "replicas": {replica.index: tensors_by_name(replica.stages, inner)},
        "replica count": replica.count,
    }


class ReplicaSaved(PipelineSaved):
    """A good checkpoint of replicas; what all agreed on can be read as that of a pipeline."""

    def load_into(
        self,
        model: Stages,
        optimizer: Optimizer | None = None,
        scheduler: None = None,
        scaler: None = None,
    ) -> dict:
        """As for every `Saved`, of `capture_replica`.

        model: a `Replica`, with its inner optimizer; or stages, which get what all agreed on.

        The number of stages may differ, and that of replicas: one that was not there begins with
        what all agreed on, and with the moments of one that was; what one did that is there no
        more, since the last meeting, is lost.
        """
        if not isinstance(model, Replica):
            return super().load_into(model, optimizer)
        parts = {"optimizer": model.outer, "inner optimizer": optimizer}
        kept = agree(lambda: self._kept_for(model, parts))
        there = self.state["replica count"]
        own = f"replicas.{model.index % there}."
        fill_stages(self.path, kept, {"": (model, model.outer), own: (model.stages, optimizer)})
        if model.index >= there:
            model.begin_with_agreed()
        restore_rng(self.state)
        return self.state["position"]


class ReplicaCheckpoints(PipelineCheckpoints):
    """Checkpoints of replicas that train alone; what is saved is that of `capture_replica`."""

    kind = ReplicaSaved
