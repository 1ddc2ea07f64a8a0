"""TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nproc-per-node 3 --max-restarts 3 \
    -m rankbook.programs.retrofit.fsdp2_after DIR

Without the variable torch 2.13 starts the ranks again with the store of the dead ones.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss

from rankbook.data.global_batches import GlobalBatches, load_shares, position
from rankbook.programs.retrofit.parts import BATCH, STEPS, begin, net, samples, tell
from rankbook.training.checkpoint import ShardedCheckpoints, capture
from rankbook.training.elastic import PreemptionHandler


def main(folder: str) -> None:
    notice = PreemptionHandler()
    device, data, step = begin(), samples(), 0
    model = net().to(device)
    for module in (model[0], model[3], model):
        fully_shard(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batches = GlobalBatches(len(data), BATCH, rank=rank, world_size=ranks)
    checkpoints = ShardedCheckpoints(f"{folder}/kept")
    if saved := checkpoints.newest():
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
            checkpoints.wait()
            notice.leave()
    checkpoints.wait()
    dcp.save({"model": model.state_dict()}, checkpoint_id=f"{folder}/model")


if __name__ == "__main__":
    main(sys.argv[1])
    dist.destroy_process_group()
