"""Rank 1 reads a file that nobody writes, and rank 0 waits for rank 1.

Where WAIT_FOR names a file, rank 0's 12 seconds begin when it is there.
"""

import faulthandler
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.core.placement import init


def load(part):
    return float(Path(os.environ["SHARED"], f"part-{part}").read_text())


init(timeout=900)  # one node may start much later than the other
dist.barrier()
hasty = dist.new_group(timeout=timedelta(seconds=12))
faulthandler.dump_traceback_later(2)
total = torch.tensor(load(dist.get_rank()))
while not Path(os.environ.get("WAIT_FOR", "/")).exists():
    time.sleep(0.1)
dist.all_reduce(total, group=hasty)
