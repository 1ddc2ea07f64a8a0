"""A plan on live ranks: a function that trains its layout for a step, on cards that sleep."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch.optim import SGD

from rankbook.cost_model.network import Link
from rankbook.memory.model_shape import ModelShape
from rankbook.memory.setup import Setup
from rankbook.mesh import Part, build, clip_grad_norm, train_step
from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.replicas import here
from rankbook.plan.machines import Assumptions, Card, Machines
from rankbook.plan.pretended import pretend_card

MAX_NORM = 0.5
# of a setup, what ranks do here; step_time foretells more
PLAIN = {"precision": "float32", "checkpointing": "none", "offload": (), "chunks": 1}


def step_in_small(
    config: TransformerConfig, setup: Setup, rows: int, flops: float, seed: int = 0
) -> Callable[[], torch.Tensor]:
    """A step of `setup` as a function of nothing, which returns the loss; on all ranks, on the CPU.

    config: of the whole model; a sequence has its max_length. rows: of the whole batch, random, the
    same on all ranks. flops: FLOP/s of the card that each rank pretends to have. ZeRO 3 without a
    pipeline runs its microbatches as a loop over small batches does, each forward and backward for
    itself. Raises ValueError for ZeRO 1 and 2 and for what else ranks do not do here (`PLAIN`), and
    for a batch that is not `setup.sequences` x microbatches x replicas.
    """
    _check(setup)
    planned = setup.sequences * setup.microbatches * setup.dp
    if planned != rows:
        raise ValueError(
            f"{setup.sequences} sequences x {setup.microbatches} microbatches x {setup.dp} "
            f"replicas are {planned} rows, not {rows}; change one of them"
        )
    looped = setup.zero == 3 and setup.pp == 1
    together = 1 if looped else setup.microbatches
    cpu, kind = torch.device("cpu"), setup.schedule
    part = build(config, setup.layout, cpu, seed, schedule=kind, microbatches=together)
    for stage in part.modules.values():
        pretend_card(cast(TransformerLM, stage), ModelShape.of(config), flops, setup.tp)
    optimizer = SGD(part.parameters(), lr=0.01)
    tokens, targets = random_text(config, rows)
    if not looped:
        return lambda: train_step(part, optimizer, tokens, targets, MAX_NORM)[0]
    pairs = [ids.chunk(setup.microbatches) for ids in (tokens, targets)]
    return lambda: _looped(part, optimizer, list(zip(*pairs, strict=True)))


def _check(setup: Setup) -> None:
    if setup.zero in (1, 2):
        raise ValueError(f"the book's ranks have ZeRO 0 and 3, not {setup.zero}; use one of these")
    for name, plain in PLAIN.items():
        given = getattr(setup, name)
        if type(plain)(given) != plain:
            raise ValueError(f"a step in small has {name}={plain!r} only, not {given!r}; change it")


def _looped(part: Part, optimizer: SGD, small: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
    """Gradients of all `small` batches, one after the other, then one update."""
    optimizer.zero_grad()
    replica = part.mesh["dp"].get_local_rank()
    losses = [part.step(*(part.plan.share(ids, replica) for ids in pair)) for pair in small]
    for parameter in part.parameters():
        if parameter.grad is not None:  # the mean over small batches, not their sum
            here(parameter.grad).div_(len(small))
    clip_grad_norm(part.parameters(), MAX_NORM, part.mesh)
    optimizer.step()
    return torch.stack(losses).mean()


def random_text(config: TransformerConfig, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same tokens and targets for everybody, (rows, max_length) each."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (rows, config.max_length + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def small_machines(
    flops: float, inside: Link, between: Link, per_node: int, nodes: int = 2
) -> Machines:
    """Machines for `step_time`: measured as they are, so nothing is assumed, and nothing hidden.

    flops: FLOP/s of a step, all that it does included. between: a rank's own share.
    """
    # memory and bandwidth ask for nothing: their time is in `flops`, the ranks are small
    card = Card("in small", 1e12, flops, 1e18, inside, between, per_node)
    sure = Assumptions(matmul=1, attention=1, memory=1, link=1, hidden=0, workspace=0, fragments=0)
    return Machines(card, nodes * per_node, per_node, sure)


def equal_links(machines: Machines) -> Machines:
    """The same, as one who forgets the network sees them: between nodes as inside one."""
    return replace(machines, card=replace(machines.card, between=machines.card.inside))
