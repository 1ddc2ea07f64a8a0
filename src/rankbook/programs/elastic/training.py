"""A run of elastic on one rank: checked, joined, and where its newest checkpoint left off."""

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from rankbook.core.agreement import broadcast_from_rank0, rank_and_world
from rankbook.core.parent_death import die_with_parent
from rankbook.core.placement import init, place
from rankbook.data.global_batches import GlobalBatches, begin_worker, load_shares
from rankbook.programs.elastic.options import Options
from rankbook.programs.elastic.tasks import TrainingTask, make_task
from rankbook.training.checkpoint import Checkpoints, Store
from rankbook.training.checkpoint.random_state import seed_from
from rankbook.training.elastic import Events

if TYPE_CHECKING:
    from torchdata.stateful_dataloader import StatefulDataLoader

AGENT = "RANKBOOK_AGENT"  # set where a notebook's agent started us: it has seen to our end

SHARED = (
    "torchrun shares its store with the ranks, so no node can join, and a restart may look for "
    "ranks that are gone; start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
)


@dataclass
class ElasticRun:
    """A run on this rank: `step` steps are done, and the data stand at `position`."""

    options: Options
    task: TrainingTask
    checkpoints: Store
    events: Events
    loader: "StatefulDataLoader" = field(init=False)  # of shares, from `position` on
    step: int = 0
    resumed: int = 0  # the step that it went on from
    saved: int = 0  # the step that was saved last, or is still being written
    position: dict = field(default_factory=lambda: {"epoch": 0, "sample": 0})
    loss: float = float("nan")  # of the last step that was done here
    rank: int = 0
    world_size: int = 1

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        if self.options.steps is not None:
            return self.step >= self.options.steps
        assert self.options.epochs is not None
        return self.position["epoch"] >= self.options.epochs

    def say(self, line: str) -> None:
        """One line, by rank 0 for all."""
        if self.rank == 0:
            print(f"elastic: {line}", flush=True)

    def pass_over(self, line: str) -> None:
        """What the checkpoints say: of one that is no good, above all."""
        if "is passed over" in line:
            self.events.write("passed over", why=line)
        self.say(line)


def prepare(options: Options) -> ElasticRun:
    """Check everything, join the group, load the newest checkpoint."""
    if "TORCHELASTIC_RUN_ID" in os.environ and AGENT not in os.environ:
        die_with_parent(os.getppid())  # an agent that is killed leaves no rank behind
    began, checkpoints, events = time.time(), open_checkpoints(options), Events(options.events)
    device = join(options)
    run = ElasticRun(options, make_task(options, device), checkpoints, events)
    run.rank, run.world_size = rank_and_world()
    attempt = broadcast_from_rank0(lambda: uuid.uuid4().hex[:12])
    events.constant |= {"rank": run.rank, "world_size": run.world_size, "attempt": attempt}
    events.write("start", time=began)
    checkpoints.say = run.pass_over
    seed_from({"seed": options.seed}, run.rank)  # dropout, until a checkpoint says more
    if shares_its_store(os.environ):
        run.say(SHARED)
    resume(run)
    run.loader = load(run)
    return run


def shares_its_store(environment: Mapping[str, str]) -> bool:
    """Whether the job can change, and torchrun started it in a way that does not bear that.

    So it is with torch 2.13 unless it is told otherwise, as `rankbook.programs.elastic` says.
    """
    shared = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    restarts = environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    return shared and (restarts or environment.get("GROUP_WORLD_SIZE", "1") != "1")


def open_checkpoints(options: Options) -> Store:
    """The folder of checkpoints; CheckpointError now if nothing can be written there."""
    kind: type[Store] = Checkpoints
    if options.sharded:
        from rankbook.training.checkpoint import ShardedCheckpoints  # slow to import

        kind = ShardedCheckpoints
    checkpoints = kind(options.checkpoint, options.keep)
    checkpoints.check()
    return checkpoints


def join(options: Options) -> torch.device:
    """Join the group that torchrun described, if it did; give this rank's device."""
    # as many threads in every start: the order of sums depends on it
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if "WORLD_SIZE" in os.environ:
        device = init(options.backend, options.timeout)
    else:
        device = place(0, 1, options.backend).device
    if device.type == "cuda":  # the same bits after a restart, on GPUs too
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return device


def resume(run: ElasticRun) -> None:
    """Go on from the newest checkpoint that is whole, or begin."""
    run.checkpoints.take_over()  # first: a world that still trains saves nothing after this look
    saved = run.checkpoints.newest()
    if saved is not None:
        run.position = saved.load_into(run.task.model, run.task.optimizer)
        run.step = run.resumed = run.saved = saved.step
        for group in run.task.optimizer.param_groups:
            group["lr"] = run.options.lr  # the rate of this number of ranks
    run.events.write("resume", step=run.step, path=saved.path if saved else None)
    since = f"on from step {run.step}, {saved.path.name}" if saved else "from the beginning"
    batch = f"{run.options.batch} samples a step"
    if run.options.batch_per_rank is not None:
        batch += f", which grow with the ranks (learning rate: {run.options.scale_lr})"
    ranks = f"{run.world_size} rank{'s' * (run.world_size > 1)}"
    run.say(f"{ranks}, {since}; {batch}, learning rate {run.options.lr:g}")


def load(run: ElasticRun) -> "StatefulDataLoader":
    """This rank's shares of the global batches, from the run's position on."""
    batches = GlobalBatches(
        len(run.task.data),
        run.options.batch,
        seed=run.options.seed,
        rank=run.rank,
        world_size=run.world_size,
    )
    batches.load_state_dict(run.position)
    return load_shares(
        run.task.data, batches, run.options.workers, worker_init_fn=begin_loader_process
    )


def begin_loader_process(worker: int) -> None:
    """Obey signals again, and end with the rank, also with one that is killed."""
    begin_worker(worker)
    die_with_parent(os.getppid())
