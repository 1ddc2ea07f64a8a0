"""Ranks that torchrun starts again read the addresses of the dead ones, and may connect to them.

    torchrun --standalone --nproc-per-node 2 --max-restarts 1 second_life.py

The agent's store serves the ranks, too, and a restart does not empty it: whether "life 1" comes up
is a race. With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, set for the agent, it always does.
"""

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

life = os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.init_process_group("gloo", timeout=timedelta(minutes=2))
ranks = torch.ones(1)
dist.all_reduce(ranks)
print(f"life {life}: {ranks.item():.0f} ranks have met", flush=True)
if life == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(ranks)
dist.destroy_process_group()
