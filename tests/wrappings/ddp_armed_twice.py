"""DDP, armed by the metadata inference, reduces twice in step 1 and raises in step 2."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
row = torch.ones(1, 4)
shapes = {"input_args": row, "output_args": row} if "shapes" in sys.argv else {}
ddp = DDP(nn.Linear(4, 4))
stage = PipelineStage(ddp, 0, 1, torch.device("cpu"), **shapes)
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
for step in (1, 2):
    try:
        schedule.step(torch.ones(2, 4), target=torch.zeros(2, 4))
        print(f"step {step}: done")
    except RuntimeError as error:
        print(f"step {step}: {str(error.__cause__).split('Original ')[1]}")
dist.destroy_process_group()
