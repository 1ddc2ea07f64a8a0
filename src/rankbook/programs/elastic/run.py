"""Train on ranks that may come, go and die: the run is a function of its seed and its steps.

TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 1:3 --nproc-per-node 2 --max-restarts 3 \
    --rdzv-backend c10d --rdzv-endpoint HOST:29400 --rdzv-id 1 \
    -m rankbook.programs.elastic --checkpoint DIR

The variable is for torch 2.13, which cannot let a node join without it.
"""

import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import NoReturn

import torch.distributed as dist

from rankbook.data.global_batches import position
from rankbook.programs import ending
from rankbook.programs.elastic.options import Options, read
from rankbook.programs.elastic.training import ElasticRun, prepare
from rankbook.training.checkpoint import CheckpointError, Superseded, capture
from rankbook.training.elastic import PreemptionHandler, elastic_step


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return what rank 0 says at the end."""
    with ending.exit_on_user_error("elastic"):
        try:
            run = prepare(read(sys.argv[1:] if arguments is None else arguments))
        except RuntimeError as error:
            lose(error)
    with ending.exit_on_user_error("elastic", OSError):
        try:
            with PreemptionHandler(grace=run.options.grace, stuck=partial(stuck, run)) as notice:
                train(run, notice)
        except RuntimeError as error:
            lose(error, run)
    return finish(run)


def train(run: ElasticRun, notice: PreemptionHandler) -> None:
    """All steps from where the run stands, or until a notice; on all ranks."""
    shares = iter(run.loader)
    while not run.done:
        began, epoch, share = time.monotonic(), run.position["epoch"], next(shares)
        result = elastic_step(run.task.model, run.task.optimizer, run.task.losses, share)
        run.step, run.loss, run.position = run.step + 1, result.loss, position(run.loader)
        samples = [] if share is None else share[0].tolist()
        run.events.write("step", step=run.step, loss=run.loss, epoch=epoch, samples=samples)
        time.sleep(max(0.0, began + pace(run.options) - time.monotonic()))

        leaving = notice.agreed()
        if leaving or run.done or run.step % run.options.save_every == 0:
            save(run)
        if leaving and not run.done:
            leave(run, notice)


def pace(options: Options) -> float:
    """The seconds that a step takes at least."""
    over = options.pace_until is not None and options.pace_until.exists()
    return 0.0 if over else options.pace


def save(run: ElasticRun) -> None:
    """Write a checkpoint; one that fails is said, and the one before it is still there.

    Raises CheckpointError where it was the last one.
    """
    began = time.monotonic()
    state = capture(run.task.model, run.task.optimizer, run.position)
    try:
        run.checkpoints.save(run.step, state)
        if run.done:
            run.checkpoints.wait()
    except CheckpointError as error:
        refused = isinstance(error, Superseded)  # another world trains this run
        if run.rank == 0:
            run.events.write("refused" if refused else "save failed", step=run.step, why=error)
        if run.done or refused:
            raise
        run.say(f"step {run.step} is not saved: {error}")
        return
    run.saved = run.step
    if run.rank == 0:
        run.events.write("save", step=run.step, seconds=time.monotonic() - began)


def leave(run: ElasticRun, notice: PreemptionHandler) -> NoReturn:
    """End this rank, as it or another was told to; on all ranks."""
    with suppress(CheckpointError):  # said already: then the run goes on from an older one
        run.checkpoints.wait()
    given = notice.given.name if notice.given else None
    run.events.write("notice", step=run.step, signal=given)
    run.say(f"told to end after step {run.step}")
    notice.leave()


def stuck(run: ElasticRun, given: signal.Signals, where: str) -> None:
    """Say what is lost, before this rank ends alone: its main thread is blocked. In another thread.

    Nothing is read from the disk, which may be what the main thread waits for.
    """
    run.events.write("notice", step=run.step, signal=given.name, blocked=where, saved=run.saved)
    kept = f"step {run.saved} is saved" if run.saved else "nothing was saved yet"
    if run.saved and run.options.sharded:
        kept = f"step {run.saved} was being saved in the background, which may not have ended"
    ending.say(
        f"elastic, rank {run.rank}",
        f"{given.name} came, and the ranks have not agreed to leave in {run.options.grace:g} s; "
        f"this rank leaves alone, after step {run.step}. {kept}. The main thread is in {where}",
    )


def lose(error: RuntimeError, run: ElasticRun | None = None) -> NoReturn:
    """End this rank where another has gone: in one sentence, with a status that asks for a restart.

    Raises `error` if it is of another kind.
    """
    if not ending.is_lost(error):
        raise error
    when = "before the first step"
    if run is not None:
        when = f"in step {run.step + 1}"
        run.events.write("leave", step=run.step, why=ending.why_lost(error))
    ending.exit_peer_lost(error, "elastic", when)


def finish(run: ElasticRun) -> dict:
    """Say how it ended, and leave the group."""
    run.events.write("end", step=run.step)
    done = f"step {run.step}, epoch {run.position['epoch']}"
    if run.step == run.resumed:
        run.say(
            f"complete already: {done} in {run.options.checkpoint}; nothing is left to do, unless "
            "--steps or --epochs ask for more"
        )
    else:
        run.say(f"done: {done}, loss {run.loss:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()
    return {"step": run.step, "loss": run.loss, "world_size": run.world_size}
