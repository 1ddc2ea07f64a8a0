"""What ranks do around a save in the background; run by test_saving_chapter.py and the next."""

import os
import signal
import threading
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

from rankbook.programs.retrofit import ddp_after, fsdp2_after
from rankbook.training.checkpoint import ShardedCheckpoints, capture
from tests.distributed.elastic_state_ranks import make, train
from tests.waiting import SOON


def busy_disk() -> tuple[threading.Event, threading.Event]:
    """From now on, `fsync` in other threads waits for the first event; the second: one does."""
    free, reached, fsync, me = threading.Event(), threading.Event(), os.fsync, threading.get_ident()

    def waits(file: int) -> None:
        if threading.get_ident() != me:
            reached.set()
            free.wait(SOON)
        fsync(file)

    os.fsync = waits
    return free, reached


def saved(checkpoints: ShardedCheckpoints) -> int:
    """The newest step that is visible."""
    return int(checkpoints.paths()[0].name.split("-")[1])


def killed(folder: str) -> None:
    """Where only rank 0's disk is busy, nobody's save is durable; then both are killed."""
    model, optimizer = make(shard=True)
    checkpoints = ShardedCheckpoints(Path(folder))
    checkpoints.save(10, capture(model, optimizer, {}))
    checkpoints.wait()
    if dist.get_rank() == 0:
        free, reached = busy_disk()
    checkpoints.save(20, capture(model, optimizer, {}))
    waiting = threading.Thread(target=checkpoints.wait, daemon=True)
    waiting.start()
    if dist.get_rank() == 0:
        assert reached.wait(SOON)
    for step in (21, 22, 23):  # while the writer is at the disk
        train(model, optimizer, step, average=False)
    assert saved(checkpoints) == 10 and waiting.is_alive()
    dist.barrier()
    if dist.get_rank() == 0:
        free.set()
    waiting.join(SOON)
    assert not waiting.is_alive() and saved(checkpoints) == 20
    dist.barrier()
    busy_disk()
    checkpoints.save(30, capture(model, optimizer, {}))
    dist.barrier()  # it has returned on both
    os.kill(os.getpid(), signal.SIGKILL)


def told_to_leave(program: str, folder: str) -> None:
    """The loop of a retrofit, whose rank 1 gets SIGTERM in step 3."""
    module = {"ddp_after": ddp_after, "fsdp2_after": fsdp2_after}[program]
    told = module.tell

    def tell(folder: str, step: int, loss: torch.Tensor) -> None:
        told(folder, step, loss)
        if step == 3 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with patch.multiple(module, begin=lambda: torch.device("cpu"), tell=tell):
        module.main(folder)
