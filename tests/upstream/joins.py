"""A second node joins a job of torchrun: its words are those of the elastic tutorial.

    torchrun --nnodes 1:3 --nproc-per-node 2 --max-restarts 3 --rdzv-id 1 \
        --rdzv-backend c10d --rdzv-endpoint HOST:PORT joins.py

Start it twice. With torch 2.13 the join ends the job: the new ranks wait a minute for an address
that nobody writes. With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, set for both agents, four ranks meet.
"""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ranks = 0
while ranks < 4:
    here = torch.ones(1)
    dist.all_reduce(here)
    if here.item() != ranks:
        ranks = int(here.item())
        print(f"{ranks} ranks have met", flush=True)
    time.sleep(0.2)
dist.destroy_process_group()
