"""TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nproc-per-node 3 --max-restarts 3 \
    -m rankbook.programs.retrofit.ddp_after DIR

Without the variable torch 2.13 starts the ranks again with the store of the dead ones.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from rankbook.data.global_batches import GlobalBatches, load_shares, position
from rankbook.programs.retrofit.parts import BATCH, STEPS, begin, net, samples, tell
from rankbook.training.checkpoint import Checkpoints, capture
from rankbook.training.elastic import PreemptionHandler


def main(folder: str) -> None:
    notice = PreemptionHandler()
    device, data, step = begin(), samples(), 0
    model = DistributedDataParallel(net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batches = GlobalBatches(len(data), BATCH, rank=rank, world_size=ranks)
    checkpoints = Checkpoints(f"{folder}/kept")
    if saved := checkpoints.newest():
        # DDP regroups the gradients after its first backward, which changes the order of sums:
        model(data.tensors[0][:1].to(device)).sum().backward()  # so that one is thrown away
        step = saved.step
        batches.load_state_dict(saved.load_into(model, optimizer))
    loader = load_shares(data, batches)
    shares = iter(loader)
    while step < STEPS:
        inputs, targets = next(shares)
        optimizer.zero_grad()
        loss = mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        step += 1
        tell(folder, step, loss)
        leaving = notice.agreed()
        if leaving or step % 5 == 0 or step == STEPS:
            checkpoints.save(step, capture(model, optimizer, position(loader)))
        if leaving and step < STEPS:
            notice.leave()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), f"{folder}/model.pt")


if __name__ == "__main__":
    main(sys.argv[1])
    dist.destroy_process_group()  # after main: DDP has to go before its group
