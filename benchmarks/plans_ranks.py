"""A rank of `benchmarks.plans`: trains each plan's layout in turn, and times links and a card.

torchrun ... -m benchmarks.plans_ranks JOB RESULT

JOB: a JSON file, as `benchmarks.plans.live` writes it. Rank 0 writes RESULT.
"""

import datetime
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.comm.all_reduce import fit_alpha_beta, time_messages
from rankbook.core.timing import one_process, time_interleaved
from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.in_small import random_text, step_in_small
from rankbook.predict.plan.pretended import pretend_card

CPU = torch.device("cpu")
TURNS = 7  # of every message
MESSAGES = [1 << 12, 1 << 15, 1 << 18]  # bytes


def main() -> None:
    """Do the job, and write what it took."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=180))
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    found = {
        "links": links(job["per_node"], TURNS),
        "sent": sent(MESSAGES[-1]),
        "flops": card(job),
        "seconds": timed(job),
    }
    if dist.get_rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")
    dist.barrier()  # a group that is left while others still connect breaks theirs
    dist.destroy_process_group()


def timed(job: dict) -> dict[str, list[float]]:
    """Seconds of the steps of each plan, which take turns; the first ones are not counted."""
    config = TransformerConfig(**job["config"])
    steps = {
        name: step_in_small(config, Setup(**setup), job["rows"], job["flops"])
        for name, setup in job["plans"].items()
    }
    # in their first step, stages tell each other shapes
    return time_interleaved(steps, job["repeats"], CPU, clock="slowest rank")


def card(job: dict) -> float:
    """FLOP/s of a rank by itself: the products of its share of a step, by seconds measured."""
    config = TransformerConfig(**job["config"])
    model, shape = TransformerLM(config), ModelShape.of(config)
    initialise(model, 0)
    pretend_card(model, shape, job["flops"])
    tokens, targets = random_text(config, max(1, job["rows"] // dist.get_world_size()))
    step = one_process(lambda: token_loss(model(tokens), targets).backward())
    took = time_interleaved({"alone": step}, 3, CPU, clock="rank 0")["alone"]
    return shape.flops * tokens.numel() / statistics.median(took)


def links(per_node: int, repeats: int) -> dict[str, dict[str, float]]:
    """Alpha and beta inside a node and between two: every rank's own share, as all talk at once."""
    world, rank = dist.get_world_size(), dist.get_rank()
    pairs = {
        "inside": [[r, r + 1] for r in range(0, world, 2)],
        "between": [[r, r + per_node] for r in range(per_node)],
    }
    found = {}
    for name, of_ranks in pairs.items():
        groups = [dist.new_group(ranks) for ranks in of_ranks]
        mine = groups[next(i for i, ranks in enumerate(of_ranks) if rank in ranks)]
        ways = {name: lambda x, group=mine: dist.all_reduce(x, group=group)}
        seconds = time_messages(ways, dict.fromkeys(MESSAGES, repeats), CPU)[name]
        medians = torch.stack([each.median() for each in seconds])
        alpha, beta = fit_alpha_beta(torch.tensor(MESSAGES), medians)
        found[name] = {"alpha": alpha / 2, "beta": beta}  # two steps, half of the bytes in each
    return found


def sent(nbytes: int) -> dict[str, int]:
    """Bytes that leave this host by its cable when all ranks share `nbytes`, by operation."""
    x = torch.zeros(nbytes // 4)
    part = torch.zeros(len(x) // dist.get_world_size())
    operations = {
        "all_reduce": lambda: dist.all_reduce(x),
        "all_gather": lambda: dist.all_gather_into_tensor(x, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, x),
    }
    found = {}
    for name, operation in operations.items():
        dist.barrier()
        before = _gone()
        operation()
        dist.barrier()
        found[name] = _gone() - before
    return found


def _gone() -> int:
    """Bytes that have left by the interface of the ranks, as the kernel counts them."""
    time.sleep(0.2)  # what is on its way, and the others' last answers
    lines = Path("/proc/net/dev").read_text("utf-8").splitlines()
    found = dict(line.split(":") for line in lines if ":" in line)
    counts = {name.strip(): line.split() for name, line in found.items()}
    return int(counts[os.environ["GLOO_SOCKET_IFNAME"]][8])  # after eight of what came in


if __name__ == "__main__":
    main()
