"""Where the last backward is split, DDP looks for unused parameters in a detached output."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn.parallel import DistributedDataParallel as DDP


def run(rank, name):
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
    own = [dist.new_group([r]) for r in range(2)][rank]  # no second replica is needed
    stages = []
    for index in (rank, 3 - rank) if name == "ScheduleDualPipeV" else (rank, rank + 2):
        ddp = DDP(nn.Linear(4, 4), process_group=own, find_unused_parameters=True)
        stages.append(pipelining.PipelineStage(ddp, index, 4, torch.device("cpu")))
    schedule = getattr(pipelining, name)(stages, 4, loss_fn=nn.functional.mse_loss)
    for step in (1, 2):
        for stage in stages:
            stage.submod.zero_grad()
        schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
        # one write a line: print's own newline is a second one where Python does not buffer
        print(f"rank {rank}, step {step}: done\n", end="", flush=True)


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, sys.argv[1:2], nprocs=2)
