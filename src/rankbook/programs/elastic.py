"""Train on ranks that may come, go and die: the run is a function of its seed and its steps.

torchrun --nnodes 1:3 --nproc-per-node 2 --max-restarts 3 --rdzv-backend c10d \
    --rdzv-endpoint HOST:29400 --rdzv-id 1 -m rankbook.programs.elastic --checkpoint DIR
"""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

import torch
import torch.distributed as dist

from rankbook.data.global_batches import GlobalBatches, begin_worker, load_shares, position
from rankbook.live.lifeline import die_with_parent
from rankbook.parallel.placement import init, place
from rankbook.programs.elastic_options import read
from rankbook.programs.elastic_tasks import Task, make_task
from rankbook.programs.report import fail
from rankbook.training.elastic import (
    CheckpointError,
    Checkpoints,
    Events,
    Notice,
    capture,
    elastic_step,
    load_newest,
    restore,
    save_together,
)
from rankbook.training.elastic.random_state import seed_from

AGENT = "RANKBOOK_AGENT"  # set where a notebook's agent started us: it has seen to our end


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


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return what rank 0 says at the end."""
    try:
        run = prepare(read(sys.argv[1:] if arguments is None else arguments))
    except (ValueError, OSError, ImportError) as error:
        fail(error, "elastic")
    try:
        with Notice() as notice:
            train(run, notice)
    except CheckpointError as error:
        fail(error, "elastic")
    except RuntimeError as error:
        lose(run, error)
    return finish(run)


def prepare(options: argparse.Namespace) -> Run:
    """Check everything, join the group, load the newest checkpoint."""
    if "TORCHELASTIC_RUN_ID" in os.environ and AGENT not in os.environ:
        die_with_parent(os.getppid())  # an agent that is killed leaves no rank behind
    began, checkpoints, events = time.time(), open_checkpoints(options), Events(options.events)
    device = join(options)
    run = Run(options, make_task(options, device), checkpoints, events)
    if dist.is_initialized():
        run.rank, run.world_size = dist.get_rank(), dist.get_world_size()
    attempt = agree(uuid.uuid4().hex[:12])
    events.constant |= {"rank": run.rank, "world_size": run.world_size, "attempt": attempt}
    events.write("start", time=began)
    checkpoints.say = run.pass_over
    seed_from({"seed": options.seed}, run.rank)  # dropout, until a checkpoint says more
    resume(run)
    run.loader = load(run)
    return run


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


def agree(word: str) -> str:
    """Rank 0's word, on all ranks."""
    words = [word]
    if dist.is_initialized():
        dist.broadcast_object_list(words)
    return words[0]


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
        batch += f" (for {run.world_size} ranks; more ranks take more, at another learning rate)"
    ranks = f"{run.world_size} rank{'s' * (run.world_size > 1)}"
    run.say(f"{ranks}, {since}; {batch}, learning rate {run.options.lr:g}")


def train(run: Run, notice: Notice) -> None:
    """All steps from where the run stands, or until a notice; on all ranks."""
    shares = iter(run.loader)
    while not run.done:
        began, epoch, share = time.monotonic(), run.position["epoch"], next(shares)
        result = elastic_step(run.task.model, run.task.optimizer, run.task.losses, share)
        run.step, run.loss, run.position = run.step + 1, result.loss, position(run.loader)
        samples = [] if share is None else share[0].tolist()
        run.events.write("step", step=run.step, loss=run.loss, epoch=epoch, samples=samples)
        time.sleep(max(0.0, began + run.options.pace - time.monotonic()))

        leaving = notice.agreed()
        if leaving or run.done or run.step % run.options.save_every == 0:
            save(run)
        if leaving and not run.done:
            leave(run, notice)


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


def save(run: Run) -> None:
    """Write a checkpoint; one that fails is said, and the one before it is still there.

    Raises CheckpointError where it was the last one.
    """
    began = time.monotonic()
    state = capture(run.task.model, run.task.optimizer, run.position)
    try:
        path = save_together(run.checkpoints, run.step, state)
        if run.done:
            run.checkpoints.wait()
    except CheckpointError as error:
        if run.rank == 0:
            run.events.write("save failed", step=run.step, why=error)
        if run.done:
            raise
        run.say(f"step {run.step} is not saved: {error}")
        return
    if run.rank == 0:
        run.events.write("save", step=run.step, seconds=time.monotonic() - began, path=path)


def leave(run: Run, notice: Notice) -> NoReturn:
    """End this rank, as it or another was told to; on all ranks."""
    with suppress(CheckpointError):  # said already: then the run goes on from an older one
        run.checkpoints.wait()
    given = notice.given.name if notice.given else None
    run.events.write("notice", step=run.step, signal=given)
    run.say(f"told to end after step {run.step}")
    notice.leave()


def lose(run: Run, error: RuntimeError) -> NoReturn:
    """End this rank where another has gone: in one sentence, with a status that asks for a restart.

    Raises `error` if it is of another kind.
    """
    if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
        raise error
    why = str(error).splitlines()[0].rpartition("] ")[2].split(". ")[0].rstrip(".")
    run.events.write("leave", step=run.step, why=why)
    print(
        f"elastic, rank {run.rank}: lost another rank in step {run.step + 1}: {why}",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)  # no clean-up: it would wait for ranks that are gone


def finish(run: Run) -> dict:
    """Say how it ended, and leave the group."""
    run.events.write("end", step=run.step)
    run.say(f"done: step {run.step}, epoch {run.position['epoch']}, loss {run.loss:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()
    return {"step": run.step, "loss": run.loss, "world_size": run.world_size}


if __name__ == "__main__":
    main()
