"""What the ranks of test_wrappings.py do: try every wrapping under every schedule."""

import time
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist
from torch import nn

from rankbook.parallel import WRAPPINGS, schedule_names, try_wrapping, wrapping_trials
from rankbook.parallel.wrappings import Wrapping


def try_all() -> list[dict]:
    """All 49 outcomes, one after the other in the same processes, as plain values."""
    return [vars(try_wrapping(s, w)) for s in schedule_names() for w in WRAPPINGS]


def two_microbatches() -> dict:
    """The one schedule under which DDP is right, with as few microbatches as it can have."""
    return vars(try_wrapping("1f1b", "DDP", microbatches=2))


def raise_on_one() -> dict:
    """A wrapping that raises on one rank only, while the others wait for it; then one that works.

    With the seconds that the first trial took.
    """
    broken_on_one = Wrapping(
        "broken on one", lambda module, mesh: _Broken() if dist.get_rank() == 1 else module
    )
    start = time.monotonic()
    with patch.object(wrapping_trials, "find_wrapping", lambda name: broken_on_one):
        broken = try_wrapping("1f1b", broken_on_one.name)
    seconds = time.monotonic() - start
    after = vars(try_wrapping("1f1b", "fully_shard"))
    return {"broken": vars(broken), "seconds": seconds, "after": after}


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
