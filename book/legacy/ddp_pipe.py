"""The tutorial's training: `DDP` around `Pipe`, two processes, each with a pipeline of its own.

For the kernel of `make legacy`; its notebook starts it with torchrun, and `record.py` keeps it:

    torchrun --nproc-per-node 2 ddp_pipe.py SETTINGS.json IDS.pt LOSSES.json
"""

import itertools
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import rpc
from torch.distributed.pipeline.sync import Pipe

from originals.pipe_tutorial import tutorial_batch, tutorial_columns, tutorial_stages
from rankbook.models import TransformerConfig


def wrap(settings):
    config = TransformerConfig(**settings["config"])
    parts = nn.Sequential(*tutorial_stages(config, 2, seed=0))
    pipe = Pipe(parts, chunks=settings["chunks"], checkpoint="never")
    return nn.parallel.DistributedDataParallel(pipe)


def losses_of(model, columns, settings):
    for batch in range(settings["batches"]):
        tokens, targets = tutorial_batch(columns, batch * settings["length"])
        logits = model(tokens).local_value()  # an RRef, though nothing is remote
        flat = logits.view(-1, logits.shape[-1])
        yield nn.functional.cross_entropy(flat, targets), len(tokens)


def train(model, optimizer, columns, settings):
    model.train()
    losses, times = [], [time.perf_counter()]
    for loss, _ in losses_of(model, columns, settings):
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["max_norm"])
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter())
    return losses, [end - start for start, end in itertools.pairwise(times)]


@torch.no_grad()
def evaluate(model, columns, settings):
    model.eval()
    pairs = losses_of(model, columns, settings)
    total = sum(rows * loss.item() for loss, rows in pairs)
    return total / (len(columns) - 1)


def run(settings, ids):
    rank, replicas = dist.get_rank(), dist.get_world_size()
    model = wrap(settings)
    torch.manual_seed(rank)  # each replica has a dropout of its own
    columns = tutorial_columns(ids["train"], settings["rows"], rank, replicas)
    valid = tutorial_columns(ids["valid"], settings["rows"] // 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
    best, best_model, epochs = math.inf, None, []
    for _ in range(settings["epochs"]):
        rate = scheduler.get_last_lr()[0]
        losses, seconds = train(model, optimizer, columns, settings)
        value = evaluate(model, valid, settings)
        if value < best:
            best, best_model = value, model
        scheduler.step()
        epochs.append({"lr": rate, "losses": losses, "valid": value, "seconds": seconds})
    test = tutorial_columns(ids["test"], settings["rows"] // 2)
    workers = {id(queue) for queue in model.module.pipeline.in_queues}  # of the partitions
    score = evaluate(best_model, test, settings)
    return {"epochs": epochs, "test": score, "workers": len(workers)}


def main():
    settings = json.loads(Path(sys.argv[1]).read_text())
    torch.set_default_dtype(getattr(torch, settings["dtype"]))
    torch.set_num_threads(1)  # two processes on two cores
    dist.init_process_group("gloo")
    with tempfile.NamedTemporaryFile() as store:
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store.name}")
        rpc.init_rpc("worker", rank=0, world_size=1, rpc_backend_options=options)
        by_rank = [None] * dist.get_world_size()
        dist.all_gather_object(by_rank, run(settings, torch.load(sys.argv[2])))
        if dist.get_rank() == 0:
            Path(sys.argv[3]).write_text(json.dumps(by_rank))
        rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
