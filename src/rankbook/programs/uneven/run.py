"""Train a small language model where the ranks have different numbers of inputs.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6 --how join
"""

import sys
from collections import Counter
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from rankbook.core.agreement import gather
from rankbook.core.placement import init
from rankbook.data.embedded import prose
from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.joining import RunningMean
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.uneven.options import Options, read
from rankbook.training import train_uneven

SIZES = {"d_model": 32, "d_hidden": 64, "heads": 4, "layers": 2}
ROWS, LENGTH = 4, 32  # of an input: rows of text, and bytes that are predicted in each
Batch = tuple[torch.Tensor, torch.Tensor]


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the counts and the losses."""
    with exit_on_user_error("uneven"):
        options = read(sys.argv[1:] if arguments is None else arguments)
        device = init(options.backend, options.timeout)
    with exit_on_user_error("uneven", OSError):
        result = train(options, device)
    if dist.get_rank() == 0:
        print(report(options.how, result), flush=True)
    dist.destroy_process_group()
    return result


def train(options: Options, device: torch.device) -> dict:
    """All epochs; what each rank trained on, and the mean loss on all inputs before and after."""
    counts = options.inputs
    batches = [(x.to(device), y.to(device)) for x, y in shard(counts, dist.get_rank())]
    model = TransformerLM(TransformerConfig(256, **SIZES, max_length=LENGTH)).to(device)
    initialise(model, options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    before, took, seconds = evaluate(model, batches, device), [], 0.0
    for _ in range(options.epochs):
        passed = train_uneven(model, optimizer, batches, token_loss, options.how)
        took, seconds = passed.took, seconds + passed.seconds
    by_rank = gather(took)
    times = [
        Counter(Counter(each)[n] for n in range(c)) for each, c in zip(by_rank, counts, strict=True)
    ]
    return {
        "inputs": list(counts),
        "took": [len(each) for each in by_rank],
        "times": dict(sum(times, Counter())),  # how many inputs were taken how often in an epoch
        "before": before,
        "after": evaluate(model, batches, device),
        "seconds": seconds,
    }


def shard(counts: Sequence[int], rank: int) -> list[Batch]:
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
