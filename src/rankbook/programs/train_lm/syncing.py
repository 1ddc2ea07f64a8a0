"""Replicas that train alone and meet now and then: ``--sync`` of train_lm."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.optim import SGD

from rankbook.parallel.mesh import Layout
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.sync import DiLoCo, LocalSGD
from rankbook.programs.number_types import fraction, positive_float
from rankbook.programs.options import option
from rankbook.training.checkpoint import Replica

EVERY = "every"  # step: data parallelism
OUTER = {"outer_lr": 0.7, "outer_momentum": 0.9}  # https://arxiv.org/abs/2311.08105


@dataclass(frozen=True, kw_only=True)
class Syncing:
    """When replicas meet, with the outer step's learning rate and momentum if it is DiLoCo's."""

    sync: str = option(
        default=EVERY, metavar="every|local:H|diloco:H",
        help="when replicas meet: every step; local:H or diloco:H, after H steps alone (every)",
    )  # fmt: skip
    outer_lr: float | None = option(positive_float, help="of DiLoCo's outer steps (0.7)")
    outer_momentum: float | None = option(
        fraction, help="Nesterov's, of DiLoCo's outer steps (0.9)"
    )


def outer_defaults(parsed: Any) -> dict[str, float]:
    """What DiLoCo is given where the command line does not say it.

    Raises ValueError for words that say no way to meet, or an outer step where there is none.
    """
    way = parse(parsed.sync)
    given = [name for name in OUTER if getattr(parsed, name) is not None]
    if way is None or way[0] == "local":
        if given:
            flag = f"--{given[0].replace('_', '-')}"
            raise ValueError(
                f"{flag} is of DiLoCo's outer step, and --sync {parsed.sync} has none; use "
                f"--sync diloco:H, or leave out {flag}"
            )
        return {}
    return {name: value for name, value in OUTER.items() if name not in given}


def parse(text: str) -> tuple[str, int] | None:
    """("diloco", 100) for "diloco:100"; None for every step. Raises ValueError."""
    if text == EVERY:
        return None
    found = re.fullmatch(r"(local|diloco):([1-9]\d*)", text)
    if not found:
        raise ValueError(
            f"--sync {text} is no way to meet; use every, local:H or diloco:H, where H is how many "
            "steps replicas take alone"
        )
    return found[1], int(found[2])


def check(options: Syncing, layout: Layout, experts: int) -> None:
    """Raise ValueError where replicas cannot train alone."""
    if options.sync == EVERY:
        return
    alone = f"--sync {options.sync} lets each replica train alone"
    if layout.shard > 1:
        raise ValueError(
            f"{alone}, and --shard has them share one copy of the parameters; leave out one of both"
        )
    if layout.ep > 1 or experts:
        raise ValueError(
            f"{alone}, and experts are balanced over all ranks in every step; use a model without "
            "experts, or --sync every"
        )


def resume_invariants(options: Syncing) -> dict[str, Any]:
    """The options that a run has to keep when it goes on."""
    return {name: getattr(options, name) for name in ("sync", *OUTER)}


def begin(options: Syncing, part: ShardedModel) -> DiLoCo | None:
    """Let the replicas of `part` train alone, as the options say; None if they meet every step."""
    way = parse(options.sync)
    if way is None:
        return None
    how, every = way
    part.decoupled = True
    group = part.mesh["dp"].get_group()
    if how == "local":
        return LocalSGD(part.parameters(), every, group)
    rate, momentum = options.outer_lr or OUTER["outer_lr"], options.outer_momentum or 0.0
    nesterov = bool(momentum)  # SGD refuses the one without the other
    outer = partial(SGD, lr=rate, momentum=momentum, nesterov=nesterov)
    return DiLoCo(part.parameters(), every, outer, group)


@contextmanager
def global_weights(part: ShardedModel, sync: DiLoCo | None) -> Iterator[None]:
    """Context in which `part` has the global parameters, and losses are means over replicas."""
    if sync is None:
        yield
        return
    part.decoupled = False
    try:
        with sync.agreed():
            yield
    finally:
        part.decoupled = True


def mean_over_replicas(part: ShardedModel, numbers: list[list[float]]) -> list[list[float]]:
    """The means of `numbers`, as many on all replicas; on all ranks. Nothing goes for none."""
    if not numbers:
        return []
    group = part.mesh["dp"].get_group()
    own = torch.tensor(numbers, dtype=torch.float64).to(part.device)
    of_all = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(of_all, own, group=group)  # a ring's sums depend on how many go at once
    return torch.stack(of_all).mean(0).tolist()


def replica(part: ShardedModel, sync: DiLoCo) -> Replica:
    """The replica that `part` is of, with what all agreed on: for checkpoints."""
    index = part.mesh["dp"].get_local_rank()
    return Replica(part, sync.globals, sync.outer, index, part.layout.dp)


def counts(sync: DiLoCo) -> dict[str, int]:
    """How far `sync` has come, for a run's position."""
    return {"steps": sync.steps, "meetings": sync.meetings, "sent": sync.sent}


def set_counts(sync: DiLoCo, kept: dict[str, int]) -> None:
    """Go on where `counts` gave these."""
    sync.steps, sync.meetings = kept["steps"], kept["meetings"]
    sync.exchange.sent = kept["sent"]
