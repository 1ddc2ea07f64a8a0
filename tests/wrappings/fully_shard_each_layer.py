"""fully_shard per layer, as FSDP2's documentation has it, loses gradients in a split backward."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
options = {"reshard_after_forward": False} if "keep" in sys.argv else {}
stages = []
for index in range(2):
    torch.manual_seed(index)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    fully_shard(module[0], **options)
    fully_shard(module[2], **options)
    fully_shard(module)
    stages.append(PipelineStage(module, index, 2, torch.device("cpu")))
schedule = ScheduleZBVZeroBubble(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
for stage in stages:
    found = sum(p.grad is not None for p in stage.submod.parameters())
    print(f"stage {stage.stage_index}: {found} of 4 parameters have a gradient")
dist.destroy_process_group()
