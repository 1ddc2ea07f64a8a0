"""What the ranks of test_wrappings.py do: try wrappings under schedules, and break some."""

import importlib
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist
from torch import nn

from rankbook.parallel.trials import try_wrapping, wrapping_trials
from rankbook.parallel.trials.wrappings import Wrapping
from tests.waiting import SOON


def try_all(trials: list[tuple[str, str, int]]) -> list[dict]:
    """The outcomes of `trials` (schedule, wrapping, microbatches), as plain values."""
    return [vars(try_wrapping(*trial)) for trial in trials]


def raise_on_one() -> dict:
    """A wrapping that raises on one rank only, while the others wait for it; then one that works.

    And one that this torch does not have. Nobody's waiting ends by a time-out before all are ended.
    """
    absent = Wrapping("absent", lambda module, mesh: importlib.import_module("torch.absent"))
    broken_on_one = Wrapping(
        "broken on one", lambda module, mesh: _Broken() if dist.get_rank() == 1 else module
    )
    with patch.object(wrapping_trials, "find_wrapping", lambda name: broken_on_one):
        broken = try_wrapping("1f1b", broken_on_one.name, timeout=2 * SOON)
    after = vars(try_wrapping("1f1b", "fully_shard"))
    with patch.object(wrapping_trials, "find_wrapping", lambda name: absent):
        without = vars(try_wrapping("1f1b", absent.name))
    return {"broken": vars(broken), "after": after, "absent": without}


def open_files() -> list[int]:
    """How many files and connections this process has open after each of some trials."""
    counts = []
    for _ in range(4):
        try_wrapping("gpipe", "DDP")  # raises
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    return counts


def wrong_trials(trials: list[tuple[str, str, int]]) -> list[str]:
    """What each rank is told of trials (schedule, wrapping, microbatches) that cannot be made."""
    told = []
    for trial in trials:
        try:
            try_wrapping(*trial)
        except ValueError as error:
            told.append(str(error))
    return told


class _Broken(nn.Linear):
    def __init__(self):
        super().__init__(1, 1)

    def forward(self, x):
        raise RuntimeError("this stage is broken")
