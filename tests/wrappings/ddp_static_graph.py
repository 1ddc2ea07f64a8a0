"""static_graph learns from the metadata inference, where no hook runs: only stage 0 is right."""

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
    ddp = DDP(nn.Linear(4, 4), static_graph="static" in sys.argv)
    ddp.register_comm_hook(index, count)
    stages.append(pipelining.PipelineStage(ddp, index, 2, torch.device("cpu")))
schedule = pipelining.ScheduleInterleaved1F1B(stages, 4, loss_fn=nn.functional.mse_loss)
schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
reduced[:] = 0, 0  # of the second step
schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
print("reductions:", *(f"stage {i} {n}" for i, n in enumerate(reduced)))
