"""Which data-parallel wrapping of a pipeline's stages gives the gradients of the unsplit model?

The schedules call backward on a stage several times a step, some of them in halves. A wrapping that
reduces gradients from inside backward has to be told which call is the last. Here each wrapping is
tried under each schedule, on two stages' ranks x two replicas, beside the unsplit model.
"""

import datetime
import gc
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from rankbook.core.agreement import gather
from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.pipeline import Pipeline
from rankbook.parallel.plan import PipelinePlan
from rankbook.parallel.replicas import average_gradients
from rankbook.parallel.stages import stage_module
from rankbook.parallel.wrappings import find_wrapping

RIGHT, WRONG, RAISES = "right", "SILENTLY WRONG", "raises"
TOLERANCE = 1e-5  # relative, of float32 sums in another order
SIZES = TransformerConfig(50, d_model=32, d_hidden=64, heads=4, layers=8, max_length=8)


@dataclass(frozen=True)
class Outcome:
    """What a wrapping did under a schedule, the same on every rank.

    verdict: `RIGHT`, `WRONG` or `RAISES`. error: norm of (gradient - the unsplit model's) / norm
    of the latter, in the first step that was wrong, or the last; NaN if none was finished.
    missing: how many of the model's parameters had no gradient at all then. step, message: if it
    raised, in which optimizer step (from 1), and the first line of what.
    """

    schedule: str
    wrapping: str
    verdict: str
    error: float = math.nan
    missing: int = 0
    step: int = 0
    message: str = ""


def try_wrapping(
    schedule: str, wrapping: str, microbatches: int = 4, steps: int = 2, timeout: float = 20.0
) -> Outcome:
    """Train a small model for `steps` with `wrapping` under `schedule`; say what came out.

    microbatches: of each of the two pipelines. Call it on all of exactly four ranks: two per
    pipeline, two replicas. All of it is done on the
    CPU over gloo groups of its own. A rank on which something is raised closes them, so that the
    others are not left waiting; where a wrapping still holds on to them, `timeout` seconds end the
    waiting. All ranks can go on to the next trial.
    Some wrappings only raise in the second step. Raises ValueError where there is nothing to try.
    """
    trial = _Trial(schedule, wrapping, microbatches, timeout)
    step, error, missing, message = 0, math.nan, 0, ""
    try:
        with _quiet():
            trial.build()
            while step < steps:
                step += 1
                found = trial.step()
                if not (missing or error > TOLERANCE):  # after a wrong step the models differ
                    error, missing = found
    except Exception as raised:  # what the wrapping does is the question
        message = _first_line(raised)
    trial.close(failed=bool(message))
    step, message = _agree(step, message)
    if message:
        return Outcome(schedule, wrapping, RAISES, error, missing, step, message)
    verdict = WRONG if missing or error > TOLERANCE else RIGHT
    return Outcome(schedule, wrapping, verdict, error, missing)


class _Trial:
    """One wrapping under one schedule, and the unsplit model beside it, step by step."""

    def __init__(self, schedule: str, wrapping: str, microbatches: int, timeout: float):
        self.plan = PipelinePlan(schedule, 2, microbatches, replicas=2)
        self.wrapping = find_wrapping(wrapping)
        if dist.get_world_size() != 4:
            raise ValueError(f"a trial takes 4 ranks, but world_size is {dist.get_world_size()}")
        self.groups, self.mesh = _mesh(timeout)
        self.batches = torch.Generator().manual_seed(1)

    def build(self) -> None:
        """The unsplit model, and this rank's wrapped stages with the same values."""
        self.whole = TransformerLM(SIZES)
        initialise(self.whole, 0)
        indices = self.plan.stages_of(self.mesh["pp"].get_local_rank())
        bare = {i: stage_module(SIZES, i, self.plan.stages, torch.device("cpu")) for i in indices}
        wrapped = {i: self.wrapping.apply(module, self.mesh["dp"]) for i, module in bare.items()}
        self.pipeline = Pipeline(self.plan, wrapped, self.mesh, token_loss, SIZES)
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
        """One optimizer step of both; the relative error of the gradient, missing gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        rows = 2 * self.plan.replicas * self.plan.microbatches
        text = torch.randint(SIZES.vocab_size, (rows, 7), generator=self.batches)
        tokens, targets = text[:, :-1], text[:, 1:]
        token_loss(self.whole(tokens), targets).backward()
        replica = self.mesh["dp"].get_local_rank()
        self.pipeline.step(*(self.plan.share(ids, replica) for ids in (tokens, targets)))
        if self.wrapping.average_after_step:
            average_gradients(self.parameters.values(), self.mesh["dp"].get_group())
        compared = self._compare()
        for optimizer in self.optimizers:
            optimizer.step()
        return compared

    def _compare(self) -> tuple[float, int]:
        """Relative error of the gradient, missing gradients: of all stages, of all replicas."""
        total = torch.zeros(3, dtype=torch.float64)
        right = {name: _gradient(p) for name, p in self.whole.named_parameters()}
        for name, parameter in self.parameters.items():
            mine, expected = parameter.grad, right[name]
            if isinstance(mine, DTensor):  # the part of it that is here
                of = mine.device_mesh, mine.placements
                expected = distribute_tensor(expected, *of, src_data_rank=None).to_local()
                mine = mine.to_local()
            difference = expected if mine is None else mine - expected
            total += torch.tensor([difference.norm() ** 2, expected.norm() ** 2, mine is None])
        for group in self.groups.values():
            dist.all_reduce(total, group=group)
        wrong, whole, missing = total.tolist()
        return math.sqrt(wrong / whole), int(missing) // self.plan.replicas

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


def _agree(step: int, message: str) -> tuple[int, str]:
    """Step and message of the rank that raised first; what waiting ranks were told comes last."""
    raised = [(at, "gloo" in line, line) for at, line in gather((step, message)) if line]
    at, _, line = min(raised, default=(step, False, ""))
    return at, line


def _first_line(error: BaseException) -> str:
    while error.__cause__:  # stages say where, and name as the cause what it was
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the whole schedule in the log when one of its actions fails."""
    log = logging.getLogger("torch.distributed.pipelining.schedules")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before
