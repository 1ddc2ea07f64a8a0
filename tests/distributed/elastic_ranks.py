"""What the ranks of test_elastic_exact.py do: the program's training, killed where a test says."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rankbook.programs import elastic
from rankbook.training.elastic import Notice, checkpoints

RUNS: list[elastic.Run] = []  # of this process


def train(arguments: list[str], kill: tuple[str, int, int] | None = None) -> dict:
    """Run the program's training in the group that is there.

    kill: where, in which step, and which rank is ended by SIGKILL; the others fail then.
    """
    if kill is not None and kill[2] == dist.get_rank():
        PLACES[kill[0]](kill[1])
    RUNS.append(run := elastic.prepare(elastic.read(arguments)))
    try:
        with Notice() as notice:
            elastic.train(run, notice)
    except RuntimeError as error:
        elastic.lose(run, error)  # as the program does: it ends
    return {"step": run.step, "loss": run.loss}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before_step(step: int) -> None:
    """When the rank has its share of the step, and the others begin to sum it up."""
    original = elastic.elastic_step

    def wrapped(*args, **kwargs):
        if RUNS[-1].step + 1 == step:
            die()
        return original(*args, **kwargs)

    elastic.elastic_step = wrapped


def before_save(step: int) -> None:
    """When the step is done, but not its save."""
    _instead_of_save(step, lambda save: die())


def after_save(step: int) -> None:
    """When the step's save is on the disk."""
    _instead_of_save(step, lambda save: (save(), die()))


def in_save(step: int) -> None:
    """When half of the checkpoint is written; on rank 0, which writes."""

    def cut(save: Callable) -> None:
        original = checkpoints.save_plain
        checkpoints.save_plain = lambda state, file: original(state, Dying(file))
        save()

    _instead_of_save(step, cut)


class Dying:
    """A file that kills the process in the middle of a write."""

    def __init__(self, file: object):
        self.file, self.writes = file, 0

    def write(self, data: bytes) -> int:
        self.writes += 1
        if self.writes == 10:
            self.file.write(bytes(data)[: len(data) // 2])
            self.file.flush()
            die()
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _instead_of_save(step: int, act: Callable) -> None:
    original = elastic.save

    def wrapped(run: elastic.Run) -> None:
        if run.step == step:
            act(lambda: original(run))
        original(run)

    elastic.save = wrapped


PLACES = {"before": before_step, "unsaved": before_save, "saving": in_save, "saved": after_save}
