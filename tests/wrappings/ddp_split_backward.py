"""Under a split backward, DDP reduces stage 0 only: autograd.grad runs no hook of a parameter."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn.parallel import DistributedDataParallel as DDP


def count(stage, bucket):
    reduced[stage] += 1
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
stages, reduced = [], [0, 0]
for index in range(2):
    ddp = DDP(nn.Linear(4, 4), find_unused_parameters=True)
    ddp.register_comm_hook(index, count)
    stages.append(pipelining.PipelineStage(ddp, index, 2, torch.device("cpu")))
schedule = getattr(pipelining, sys.argv[1])(stages, 4, loss_fn=nn.functional.mse_loss)
schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
reduced[:] = 0, 0  # of the second step
schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
print("reductions:", *(f"stage {i} {n}" for i, n in enumerate(reduced)))
