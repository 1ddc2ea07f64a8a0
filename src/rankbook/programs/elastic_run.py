"""A run of elastic on one rank: checked, joined, and where its newest checkpoint left off."""

import argparse
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from rankbook.data.global_batches import GlobalBatches, begin_worker, load_shares
from rankbook.live.lifeline import die_with_parent
from rankbook.parallel.placement import init, place
from rankbook.programs.elastic_tasks import Task, make_task
from rankbook.training.elastic import Checkpoints, Events, load_newest, restore
from rankbook.training.elastic.random_state import seed_from
from rankbook.training.elastic.together import from_first

AGENT = "RANKBOOK_AGENT"  # set where a notebook's agent started us: it has seen to our end

SHARED = (
    "torchrun shares its store with the ranks, so no node can join, and a restart may look for "
    "ranks that are gone; start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
)


@dataclass
class Run:
    """A run on this rank: `step` steps are done, and the data stand at `position`."""

    options: argparse.Namespace
    task: Task
    checkpoints: Checkpoints
    events: Events
    loader: Iterable = ()
    step: int = 0
    position: dict = field(default_factory=dict)
    loss: float = float("nan")  # of the last step that was done here
    rank: int = 0
    world_size: int = 1

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        if self.options.steps is not None:
            return self.step >= self.options.steps
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


def prepare(options: argparse.Namespace) -> Run:
    """Check everything, join the group, load the newest checkpoint."""
    if "TORCHELASTIC_RUN_ID" in os.environ and AGENT not in os.environ:
        die_with_parent(os.getppid())  # an agent that is killed leaves no rank behind
    began, checkpoints, events = time.time(), open_checkpoints(options), Events(options.events)
    device = join(options)
    run = Run(options, make_task(options, device), checkpoints, events)
    if dist.is_initialized():
        run.rank, run.world_size = dist.get_rank(), dist.get_world_size()
    attempt = from_first(lambda: uuid.uuid4().hex[:12])
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


def open_checkpoints(options: argparse.Namespace) -> Checkpoints:
    """The folder of checkpoints; CheckpointError now if nothing can be written there."""
    kind = Checkpoints
    if options.sharded:
        from rankbook.training.elastic import ShardedCheckpoints as kind  # slow to import
    checkpoints = kind(options.checkpoint, options.keep)
    checkpoints.check()
    return checkpoints


def join(options: argparse.Namespace) -> torch.device:
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


def resume(run: Run) -> None:
    """Go on from the newest checkpoint that is whole, or begin."""
    kept = load_newest(run.checkpoints)
    run.position = {"epoch": 0, "sample": 0}
    if kept is not None:
        run.position = restore(kept.state, run.task.model, run.task.optimizer)
        run.step = kept.step
        for group in run.task.optimizer.param_groups:
            group["lr"] = run.options.lr  # the rate of this number of ranks
    run.events.write("resume", step=run.step, path=kept.path if kept else None)
    since = f"on from step {run.step}, {kept.path.name}" if kept else "from the beginning"
    batch = f"{run.options.batch} samples a step"
    if run.options.batch_per_rank is not None:
        batch += f", which grow with the ranks (learning rate: {run.options.scale_lr})"
    ranks = f"{run.world_size} rank{'s' * (run.world_size > 1)}"
    run.say(f"{ranks}, {since}; {batch}, learning rate {run.options.lr:g}")


def load(run: Run) -> Iterable:
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
