"""torchrun --nproc-per-node 3 -m rankbook.programs.retrofit.ddp_before DIR"""

import sys

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from rankbook.programs.retrofit.parts import BATCH, STEPS, begin, net, samples, tell


def main(folder: str) -> None:
    device, data, step = begin(), samples(), 0
    model = DistributedDataParallel(net().to(device))
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
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"{folder}/model.pt")


if __name__ == "__main__":
    main(sys.argv[1])
    dist.destroy_process_group()  # after main: DDP has to go before its group
