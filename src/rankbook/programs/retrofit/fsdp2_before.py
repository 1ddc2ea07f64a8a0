"""torchrun --nproc-per-node 3 -m rankbook.programs.retrofit.fsdp2_before DIR"""

import sys

import torch
import torch.distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, DistributedSampler

from rankbook.programs.retrofit.parts import BATCH, STEPS, begin, net, samples, tell


def main(folder: str) -> None:
    device, data, step = begin(), samples(), 0
    model = net().to(device)
    for module in (model[0], model[3], model):
        fully_shard(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH // dist.get_world_size(), sampler=sampler)
    epoch = 0
    while step < STEPS:
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
            step += 1
            tell(folder, step, loss)
        epoch += 1
        dcp.save({"model": model.state_dict()}, checkpoint_id=f"{folder}/epoch-{epoch}")


if __name__ == "__main__":
    main(sys.argv[1])
    dist.destroy_process_group()
