"""One rank's part of a pipeline: the modules of its stages, and the schedule that runs them.

Source: https://docs.pytorch.org/docs/stable/distributed.pipelining.html
"""

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage

from rankbook.models.loss import IGNORED
from rankbook.models.transformer import TransformerConfig
from rankbook.parallel.pipeline.forward_only import forward_only
from rankbook.parallel.pipeline.plan import PipelinePlan, check_ids
from rankbook.parallel.replicas.averaging import average


class Pipeline:
    """Forward and backward of a batch through all stages, wherever they are.

    modules: this rank's {index of the stage: module}, in the order of `plan.stages_of(rank)`,
    on their device; cut by hand or by the tracer, wrapped or not. mesh: `plan.mesh(...)`.
    loss_fn: (outputs, targets) of a microbatch to the mean over its tokens. config: the sizes of
    the whole model. Raises ValueError if the plan does not suit it, or puts other stages here.

    A training step::

        loss = pipeline.step(tokens, targets)
        average_gradients(pipeline.parameters(), mesh["dp"].get_group())
        clip_grad_norm(pipeline.parameters(), 0.5, mesh)
        optimizer.step()
    """

    def __init__(
        self,
        plan: PipelinePlan,
        modules: dict[int, nn.Module],
        mesh: DeviceMesh,
        loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        config: TransformerConfig,
    ):
        plan.check_model(config)
        planned = plan.stages_of(mesh["pp"].get_local_rank())
        if list(modules) != planned:
            raise ValueError(
                f"the plan puts the stages {planned} on this rank, not {list(modules)}"
            )
        self.plan, self.modules, self.mesh = plan, modules, mesh
        self.loss_fn, self.config = loss_fn, config
        self.device = next(self.parameters()).device
        self._schedules = {}

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's parameters, by their names in the whole model."""
        for module in self.modules.values():
            yield from module.named_parameters()

    def parameters(self) -> Iterator[nn.Parameter]:
        """This rank's parameters."""
        return (parameter for _, parameter in self.named_parameters())

    @property
    def replica(self) -> int:
        """Which share of a batch is this rank's."""
        return self.mesh["dp"].get_local_rank()

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Give the parameters this replica's gradients; return the loss of the whole batch.

        Set gradients to zero, or None, before: torch's schedules divide what they add by the
        number of microbatches, and with it what was there.

        tokens, targets: ids (batch, length) of this replica's share, on every rank of the
        pipeline; on the CPU, checking them does not wait for a GPU. Gradients are those of the
        mean over the microbatches of this share, which is the mean over its tokens if every
        microbatch has as many that count (not `IGNORED`); averaging them over replicas is left to
        do. Returns a scalar, the same on all ranks: the mean over microbatches and replicas. Raises
        ValueError, on all ranks of the pipeline alike, if the batch does not suit the plan.
        """
        self.check(tokens, targets)
        return self._average(self.run(tokens, targets, training=True))

    def evaluate(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of `tokens` and `targets` as in `step`, without gradients.

        `eval()` of the modules is the caller's.
        """
        self.check(tokens, targets)
        with torch.no_grad():
            return self._average(self.run(tokens, targets, training=False))

    def schedule(self, shape: torch.Size, training: bool):
        """torch's schedule for batches of `shape`, for `training` or not, made at the first call.

        Stages learn the shapes that they exchange from their first batch, and what needs
        gradients: each shape, and evaluation, gets stages of its own around the same modules.
        """
        key = tuple(shape), training
        if key not in self._schedules:
            group, count = self.mesh["pp"].get_group(), self.plan.stages
            stages = [
                PipelineStage(module, index, count, self.device, group=group)
                for index, module in self.modules.items()
            ]
            kind = self.plan.kind
            schedule = kind.cls(
                stages[0] if kind.placement == "single" else stages,
                n_microbatches=self.plan.microbatches,
                loss_fn=self.loss_fn,
            )
            self._schedules[key] = schedule if training else forward_only(schedule)
        return self._schedules[key]

    def forget_schedules(self) -> None:
        """Let go of the schedules and what they hold of the last batch; they are made anew."""
        self._schedules.clear()

    def run(self, tokens: torch.Tensor, targets: torch.Tensor, training: bool) -> torch.Tensor:
        """Run the schedule over tokens that `check` has passed, on all ranks of one pipeline.

        Returns the mean loss over the microbatches, on all of its ranks; replicas are left to do.
        """
        schedule = self.schedule(tokens.shape, training)
        last = self.plan.stages - 1 in self.modules
        losses = []
        # torch 2.11 refuses tokens cut from longer rows: their strides are not those it inferred
        inputs = (tokens.to(self.device).contiguous(),) if 0 in self.modules else ()
        outputs = {"target": targets.to(self.device), "losses": losses} if last else {}
        # the logits of a whole batch can take more memory than the model: not returned
        run = schedule.step if training else schedule.eval
        run(*inputs, return_outputs=False, **outputs)
        loss = torch.zeros((), device=self.device)
        if last:
            loss += torch.stack(losses).detach().mean()
        dist.all_reduce(loss, group=self.mesh["pp"].get_group())  # of one loss, and zeros
        return loss

    def _average(self, loss: torch.Tensor) -> torch.Tensor:
        return average(loss, self.mesh["dp"].get_group())

    def check(self, tokens: torch.Tensor, targets: torch.Tensor) -> None:
        """Raise ValueError unless this replica's share of a batch suits plan and model."""
        if tokens.dim() != 2 or tokens.shape != targets.shape:
            raise ValueError(
                f"tokens {tuple(tokens.shape)} and targets {tuple(targets.shape)} must both be "
                "(batch, length), and equal"
            )
        self.plan.check_batch(len(tokens) * self.plan.replicas)
        if tokens.shape[1] > self.config.max_length:
            raise ValueError(
                f"sequences of {tokens.shape[1]} tokens are longer than the model's max_length, "
                f"{self.config.max_length}; cut them, or make the model with a larger one"
            )
        check_ids(tokens, self.config.vocab_size, "tokens")
        counted = torch.where(targets == IGNORED, 0, targets)
        check_ids(counted, self.config.vocab_size, "targets")
