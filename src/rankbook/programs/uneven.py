"""Train a small language model where the ranks have different numbers of inputs.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6 --how join
"""

import argparse
import os
import sys
from collections import Counter

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from rankbook.data.embedded import prose
from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.parallel import RunningMean, init
from rankbook.programs.options import Parser, natural, positive, rate
from rankbook.programs.report import end, fail
from rankbook.training import WAYS, token_loss, train_uneven

START = "torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6"
SIZES = {"d_model": 32, "d_hidden": 64, "heads": 4, "layers": 2}
ROWS, LENGTH = 4, 32  # of an input: rows of text, and bytes that are predicted in each
Batch = tuple[torch.Tensor, torch.Tensor]


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the counts and the losses."""
    try:
        options, counts = read(sys.argv[1:] if arguments is None else arguments)
        device = init(options.backend, options.timeout)
    except (ValueError, OSError) as error:
        fail(error, "uneven")
    result = train(options, counts, device)
    if dist.get_rank() == 0:
        print(report(options.how, result), flush=True)
    dist.destroy_process_group()
    return result


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="torchrun ... -m rankbook.programs.uneven",
        description="Train on ranks that have different numbers of inputs, in one of several ways.",
    )
    add = p.add_argument
    add("--how", choices=WAYS, default="join", help="what to do about it (join)")
    what = p.add_mutually_exclusive_group()
    what.add_argument(
        "--inputs", type=natural, nargs="+", metavar="N", help="of each rank (5, 6, 7, ...)"
    )
    what.add_argument("--samples", type=positive, metavar="N", help="inputs, dealt out to all")
    add("--epochs", type=positive, default=3, help="(3)")
    add("--lr", type=rate, default=0.5, help="the learning rate of SGD (0.5)")
    add("--seed", type=int, default=0, help="of the parameters (0)")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def read(arguments: list[str]) -> tuple[argparse.Namespace, list[int]]:
    """The options, and the number of inputs of each rank; ValueError for what cannot be meant."""
    options = parser().parse_args(arguments)
    if "WORLD_SIZE" not in os.environ:
        raise ValueError(f"no process group is described here; start it with torchrun: {START}")
    ranks = int(os.environ["WORLD_SIZE"])
    counts = options.inputs or [5 + rank for rank in range(ranks)]
    if options.samples is not None:
        if options.samples < ranks:
            raise ValueError(
                f"{options.samples} samples cannot be dealt out to {ranks} ranks; "
                f"use --samples {ranks} or more, or fewer ranks"
            )
        counts = [len(range(rank, options.samples, ranks)) for rank in range(ranks)]
    if len(counts) != ranks:
        raise ValueError(
            f"--inputs names {len(counts)} ranks, but there are {ranks}; give one number a rank"
        )
    if not max(counts):
        raise ValueError("--inputs gives no rank an input; give at least one of them 1 or more")
    if not min(counts) and options.how in ("has-data", "pad"):
        raise ValueError(
            f"--how {options.how} needs an input on every rank; give each 1 or more, or use join"
        )
    return options, counts


def train(options: argparse.Namespace, counts: list[int], device: torch.device) -> dict:
    """All epochs; what each rank trained on, and the mean loss on all inputs before and after."""
    batches = [tuple(ids.to(device) for ids in batch) for batch in shard(counts, dist.get_rank())]
    model = TransformerLM(TransformerConfig(256, **SIZES, max_length=LENGTH)).to(device)
    initialise(model, options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    before, took, seconds = evaluate(model, batches, device), [], 0.0
    for _ in range(options.epochs):
        passed = train_uneven(model, optimizer, batches, token_loss, options.how)
        took, seconds = passed.took, seconds + passed.seconds
    by_rank = [None] * len(counts)
    dist.all_gather_object(by_rank, took)
    times = [
        Counter(Counter(each)[n] for n in range(c)) for each, c in zip(by_rank, counts, strict=True)
    ]
    return {
        "inputs": counts,
        "took": [len(each) for each in by_rank],
        "times": dict(sum(times, Counter())),  # how many inputs were taken how often in an epoch
        "before": before,
        "after": evaluate(model, batches, device),
        "seconds": seconds,
    }


def shard(counts: list[int], rank: int) -> list[Batch]:
    """The inputs of `rank`: (tokens, targets), each (rows, length), bytes of real prose."""
    size = ROWS * (LENGTH + 1)
    text = prose()["train"].encode()
    first = sum(counts[:rank])
    batches = []
    for number in range(first, first + counts[rank]):
        start = number * size % (len(text) - size)  # the text may be shorter than what is asked
        rows = torch.tensor(list(text[start : start + size])).view(ROWS, LENGTH + 1)
        batches.append((rows[:, :-1], rows[:, 1:]))
    return batches


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: list[Batch], device: torch.device) -> float:
    """The mean loss over all inputs of all ranks, in nats per byte, each once."""
    mean = RunningMean(device)
    with Join([mean]):
        for tokens, targets in batches:
            mean.update(token_loss(model(tokens), targets), targets.numel())
    return mean.mean


def report(how: str, result: dict) -> str:
    """What rank 0 says at the end."""
    ranks = [
        f"rank {rank}: {inputs} inputs, trained on {took} in an epoch"
        for rank, (inputs, took) in enumerate(zip(result["inputs"], result["took"], strict=True))
    ]
    times = result["times"]
    more = sum(count for often, count in times.items() if often > 1)
    return "\n".join([
        f"--how {how}, {result['seconds']:.2f} s",
        *ranks,
        f"inputs taken once {times.get(1, 0)}, more often {more}, never {times.get(0, 0)}",
        f"loss on all inputs {result['before']:.4f} before, {result['after']:.4f} after",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
    end()
