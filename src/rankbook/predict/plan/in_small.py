"""A plan on live ranks: a function that trains its layout for a step, on cards that sleep."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch.optim import SGD

from rankbook.comm.ring_model import Link
from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.mesh import build, train_step
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.machines import Assumptions, Card, Machines
from rankbook.predict.plan.pretended import pretend_card

MAX_NORM = 0.5
# of a setup, what ranks do here; step_time foretells more
PLAIN = {"precision": "float32", "checkpointing": "none", "offload": (), "chunks": 1}


def step_in_small(
    config: TransformerConfig, setup: Setup, rows: int, flops: float, seed: int = 0
) -> Callable[[], torch.Tensor]:
    """A step of `setup` as a function of nothing, which returns the loss; on all ranks, on the CPU.

    config: of the whole model; a sequence has its max_length. rows: of the whole batch, random, the
    same on all ranks. flops: FLOP/s of the card that each rank pretends to have. Raises
    ValueError for ZeRO 1 and 2 and for what else ranks do not do here (`PLAIN`), and for a batch
    that is not `setup.sequences` x microbatches x replicas.
    """
    _check(setup)
    planned = setup.sequences * setup.microbatches * setup.dp
    if planned != rows:
        raise ValueError(
            f"{setup.sequences} sequences x {setup.microbatches} microbatches x {setup.dp} "
            f"replicas are {planned} rows, not {rows}; change one of them"
        )
    cpu, kind, m = torch.device("cpu"), setup.schedule, setup.microbatches
    part = build(config, setup.layout, cpu, seed, schedule=kind, microbatches=m)
    for stage in part.modules.values():
        pretend_card(cast(TransformerLM, stage), ModelShape.of(config), flops, setup.tp)
    optimizer = SGD(part.parameters(), lr=0.01)
    tokens, targets = random_text(config, rows)
    return lambda: train_step(part, optimizer, tokens, targets, MAX_NORM)[0]


def _check(setup: Setup) -> None:
    if setup.zero in (1, 2):
        raise ValueError(f"the book's ranks have ZeRO 0 and 3, not {setup.zero}; use one of these")
    for name, plain in PLAIN.items():
        given = getattr(setup, name)
        if type(plain)(given) != plain:
            raise ValueError(f"a step in small has {name}={plain!r} only, not {given!r}; change it")


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
