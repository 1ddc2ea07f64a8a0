"""One rank's part of a model on a mesh, and which ranks it works with in a step."""

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig
from rankbook.parallel.context import shard as cut_sequences
from rankbook.parallel.mesh.layout import Layout
from rankbook.parallel.mesh.sequence import shared_mean
from rankbook.parallel.mesh.vocabulary import vocabulary_loss
from rankbook.parallel.pipeline.pipeline import Pipeline
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.replicas.averaging import average


class ShardedModel:
    """One rank's part of a model on the mesh of a `layout`; `build` makes it.

    modules: this rank's stages {index: module}, from `build_stage`, on `mesh`, which is
    `layout.mesh(...)`. `step` leaves gradients that are averaged over replicas where these share
    one copy (`layout.shard`), and this replica's own where not. expert_load: of a model with
    experts, what `rebalance` returned after the last `train_step`. decoupled: replicas (dp)
    exchange nothing in a step; losses and gradients are this replica's own.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        modules: dict[int, nn.Module],
        mesh: DeviceMesh,
        config: TransformerConfig,
        layout: Layout,
    ):
        self.plan, self.modules, self.mesh, self.config = plan, modules, mesh, config
        self.layout = layout
        self.pipeline = Pipeline(plan, modules, mesh, _loss(config, layout, mesh), config)
        self.device, self.check = self.pipeline.device, self.pipeline.check
        self.parameters = self.pipeline.parameters
        self.named_parameters = self.pipeline.named_parameters
        self.decoupled = False
        self.expert_load: dict[str, torch.Tensor] = {}

    @property
    def replica(self) -> int:
        """Which share of a batch is this rank's."""
        return self.layout.replica(self.mesh)

    @property
    def grad_reduce_dims(self) -> list[str]:
        """Mesh dimensions over which gradients and losses are averaged in a step."""
        dims = ("ep", "cp") if self.decoupled else ("dp", "ep", "cp")
        return [name for name in dims if name in self.layout.sizes]

    @property
    def model_mesh(self) -> DeviceMesh:
        """Sub-mesh of one model copy: the whole mesh, or without "dp" while decoupled."""
        if not self.decoupled:
            return self.mesh
        return self.mesh[tuple(name for name in self.layout.sizes if name != "dp")]

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """As `Pipeline.step`; each rank of "cp" works on its shard of every sequence."""
        self.check(tokens, targets)
        return self.reduce_loss(self.pipeline.run(*self.shard(tokens, targets), training=True))

    def evaluate(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """As `Pipeline.evaluate`; parameters that it gathered are shards again."""
        self.check(tokens, targets)
        with torch.no_grad():
            loss = self.pipeline.run(*self.shard(tokens, targets), training=False)
        for stage in self.modules.values():
            for module in stage.modules():
                if isinstance(module, FSDPModule):  # a root waits for a backward pass to do it
                    module.reshard()
        return self.reduce_loss(loss)

    def shard(self, *ids: torch.Tensor) -> list[torch.Tensor]:
        """This rank's part of each sequence: (batch, length / cp) of each (batch, length)."""
        ranks = self.layout.cp
        if ranks == 1:
            return list(ids)
        return [cut_sequences(each, ranks, self.mesh["cp"].get_local_rank()) for each in ids]

    def reduce_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """The mean of `loss` over `grad_reduce_dims`, in place and returned; on all ranks."""
        for name in self.grad_reduce_dims:
            average(loss, self.mesh[name].get_group())
        return loss


def _loss(config: TransformerConfig, layout: Layout, mesh: DeviceMesh) -> Callable:
    """That of a microbatch's logits, which "tp" shards by vocabulary, "cp" by position."""
    loss = token_loss
    if layout.tp > 1:
        loss = vocabulary_loss(config.vocab_size, mesh["tp"].get_group())
    if layout.cp > 1:
        loss = shared_mean(loss, mesh["cp"].get_group())
    return loss
