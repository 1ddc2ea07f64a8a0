"""A rank of `benchmarks.slow_links`: does the jobs that its input names, a line of JSON each.

python -m benchmarks.slow_links_ranks RANK ADDRESS MODEL

Rank 0 answers each with a line of JSON.
"""

import json
import os
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel

from rankbook.comm.ring_model import ring_bytes
from rankbook.data import wikitext2
from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.sync import CompressedGradients, DiLoCo, EightBit, LocalSGD, Sign, TopK
from rankbook.training import batchify, learning_rate, training_batch, windows

LOOKS = 4  # windows of an evaluation
COMPRESSORS = {"top": lambda share: TopK(float(share)), "bits": EightBit, "sign": Sign}
CLIP = 0.5


class Rank:
    """What all jobs use: the text, and which rows of it are this rank's."""

    def __init__(self, rank: int, sizes: dict):
        self.rank, self.ranks, self.sizes = rank, dist.get_world_size(), sizes
        corpus = wikitext2()
        self.source = corpus.source
        kept = frequent(corpus.train, sizes["words"])
        rows = sizes["rows"]
        self.train, self.valid = (batchify(kept[i], rows) for i in (corpus.train, corpus.valid))
        self.mine = slice(rank * rows // self.ranks, (rank + 1) * rows // self.ranks)

    def model(self, seed: int) -> TransformerLM:
        """The model, the same on all ranks."""
        sizes = {n: self.sizes[n] for n in ("d_model", "d_hidden", "heads", "layers")}
        config = TransformerConfig(self.sizes["words"], **sizes, max_length=self.sizes["window"])
        model = TransformerLM(config)
        initialise(model, seed)
        return model

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's rows of a step."""
        tokens, targets = training_batch(self.train, step, self.sizes["window"])
        return tokens[self.mine], targets[self.mine]

    @torch.no_grad()
    def look(self, model: nn.Module) -> float:
        """The validation loss."""
        looked = windows(self.valid, self.sizes["window"], LOOKS)
        return statistics.mean(token_loss(model(x), y).item() for x, y in looked)


def frequent(ids: torch.Tensor, words: int) -> torch.Tensor:
    """A table from ids to the places of the `words` - 1 most frequent ones; 0 for the rest."""
    order = torch.bincount(ids).argsort(descending=True, stable=True)
    table = torch.zeros(len(order) + 1_000_000, dtype=torch.long)
    table[order[: words - 1]] = torch.arange(1, words)
    return table


def about(rank: Rank) -> dict:
    """What is trained."""
    count = sum(p.numel() for p in rank.model(0).parameters())
    tcp = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text("ascii").strip()
    return {"parameters": count, "data": rank.source, "congestion_control": tcp}


def steps(rank: Rank, repeats: int) -> dict:
    """Seconds of steps of DDP, of one without messages, and of a message of four bytes.

    In a group of its own, with connections that have known no other cable: TCP remembers.
    """
    model, group = rank.model(0), dist.new_group()
    ddp = DistributedDataParallel(model, process_group=group)
    nbytes = sum(p.nbytes for p in model.parameters())
    seconds, before = [], 0
    for step in range(-4, repeats):  # DDP arranges its buckets after the first, TCP feels its way
        dist.barrier()
        before = before if step > 0 else on_cable()
        start = time.perf_counter()
        loss_of(ddp, *rank.batch(step + 4)).backward()
        seconds.append(time.perf_counter() - start)
    sent = (on_cable() - before) // repeats
    found = {"seconds": seconds[4:], "alpha": message(group), "bytes": nbytes, "sent": sent}
    compute = []
    for step in range(repeats):  # both ranks at once, as in the steps above
        dist.barrier()
        start = time.perf_counter()
        with ddp.no_sync():
            loss_of(ddp, *rank.batch(step)).backward()
        compute.append(time.perf_counter() - start)
    return found | {"compute": round(statistics.median(compute), 4)}


def message(group, repeats: int = 15) -> float:
    """Seconds of one of the two messages of an all_reduce of two ranks, of next to nothing.

    Of a few KiB: gloo sends less in another way.
    """
    seconds = []
    for _ in range(repeats):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(torch.zeros(1024), group=group)
        seconds.append(time.perf_counter() - start)
    return round(statistics.median(seconds) / 2, 6)


def train(rank: Rank, way: dict, steps: int, seed: int) -> dict:
    """Train in one way. Evaluations are not in the times, and all wait for them."""
    model = rank.model(seed)
    forward, before, after, sent = meet(model, way, dist.new_group())
    sizes = rank.sizes
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes["lr"], eps=1e-5)
    found: dict[str, list] = {"step": [], "loss": [], "sent": [], "seconds": []}
    each, began = [], on_cable()
    dist.barrier()
    for step in range(steps):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, sizes["lr"], sizes["warm_up"])
        optimizer.zero_grad()
        loss_of(forward, *rank.batch(step + 1000 * seed)).backward()
        before()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        looked = after()
        each.append(time.perf_counter() - start)
        if (step + 1) % way["looks"] == 0:
            with looked:
                loss = rank.look(model)
            numbers = step + 1, round(loss, 4), sent(began), round(sum(each), 3)
            for name, number in zip(found, numbers, strict=True):
                found[name].append(number)
            dist.barrier()
    return found | {"cable": on_cable() - began, "each": each}


def meet(model: nn.Module, way: dict, group: dist.ProcessGroup) -> tuple:
    """How `way` goes: what is called forward, before the optimizer's step, and after it.

    After it comes what makes the parameters those of all while they are looked at. The last one
    tells the bytes sent, from what the cable had carried before.
    """

    compressor = None
    if way["compressor"]:
        name, *given = way["compressor"].split()
        compressor = COMPRESSORS[name](*given)
    if way["kind"] in ("ddp", "power"):
        ddp = DistributedDataParallel(model, process_group=group)
        whole = sum(p.nbytes for p in model.parameters())
        nbytes = round(ring_bytes("all_reduce", whole, dist.get_world_size()))
        done = [0]

        def count():
            done[0] += 1
            return nullcontext()

        if way["kind"] == "power":
            state = PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2)
            ddp.register_comm_hook(state, powerSGD_hook)
            return ddp, _nothing, count, lambda began: on_cable() - began
        return ddp, _nothing, count, lambda began: done[0] * nbytes
    if way["kind"] == "gradients":
        gradients = CompressedGradients(model.parameters(), compressor, way["feedback"], group)
        return model, gradients.average, nullcontext, lambda began: gradients.sent
    make = {"local": LocalSGD, "diloco": DiLoCo}[way["kind"]]
    names = ("fragments", "overlap", "keep")
    settings: dict[str, Any] = {name: way[name] for name in names}
    sync = make(model.parameters(), way["every"], group=group, compressor=compressor, **settings)

    def step():
        sync.step()
        return sync.agreed()

    return model, _nothing, step, lambda began: sync.sent


def _nothing() -> None:
    pass


def loss_of(model, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over the tokens."""
    return token_loss(model(tokens), targets)


def on_cable() -> int:
    """Bytes that the kernel has sent by this host's only interface besides the loopback."""
    table = Path("/proc/net/dev").read_text("ascii").splitlines()
    lines = [line.split(":") for line in table if ":" in line]
    (numbers,) = [rest for name, rest in lines if name.strip() == "eth0"]
    return int(numbers.split()[8])


JOBS = {"about": about, "steps": steps, "train": train}


def main() -> None:
    """Until the input ends."""
    rank, address, sizes = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # gloo says on standard output that it is connected
    torch.set_num_threads(1)
    where = f"tcp://{address}:29500"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    mine = Rank(rank, sizes)
    for line in sys.stdin:
        job = json.loads(line)
        found = JOBS[job.pop("do")](mine, **job)
        if rank == 0:
            answers.write(f"{json.dumps(found)}\n")
            answers.flush()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
