"""What the ranks do in test_train_lm.py: train on several meshes, one after the other."""

import json
import os
from functools import partial, partialmethod
from pathlib import Path

import torch

from rankbook.programs.train_lm.options import read
from rankbook.programs.train_lm.run import prepare
from rankbook.programs.train_lm.steps import finish, train

TEXT = {"RANKBOOK_DATA": "", "HF_HUB_OFFLINE": "1"}  # what every Python carries


def same_on_every_python(cache: str) -> None:
    """Take `TEXT`, and compute in 64 bits.

    In 32, AdamW magnifies what another order of sums rounds: by how much hangs on the text, and
    each Python carries another one.
    """
    torch.set_default_dtype(torch.float64)
    os.environ.update(TEXT, RANKBOOK_CACHE=cache)


def train_each(ranks: int, lines: list[str], cache: str) -> list[dict]:
    """The program's results for each line of options, in the group that is there."""
    same_on_every_python(cache)
    return [to_end(line, ranks) for line in lines]


def train_compiled(ranks: int, lines: list[str], cache: str) -> list[dict]:
    """As `train_each`, with --compile, but for making machine code, which takes longest."""
    torch.compile = partial(torch.compile, backend="eager")
    torch.nn.Module.compile = partialmethod(torch.nn.Module.compile, backend="eager")
    return train_each(ranks, [f"{line} --compile" for line in lines], cache)


def to_end(line: str, ranks: int) -> dict:
    """What the program does between joining a group and leaving it."""
    run = prepare(read(line.split(), ranks), lambda *asked: torch.device("cpu"))
    train(run)
    return finish(run)


def logged(log: Path) -> tuple[dict[int, float], dict[str, float]]:
    """The losses by step, and those of the evaluations, in a log."""
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    steps = {record["step"]: record["loss"] for record in records if "loss" in record}
    assessed = {
        name: record[name] for name in ("valid_loss", "test_loss") for record in records
        if name in record
    }  # fmt: skip
    return steps, assessed
