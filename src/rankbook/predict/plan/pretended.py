"""Machines to try a plan on in small: cards that sleep where others compute, links that sleep too.

Ranks that share a few cores and one memory cannot show what a cluster's links do to them. Ranks
that sleep as long as a stated card computes, and a stated link sends, can: what a step does stays
real, its arithmetic and its messages; only time is added. The model of the link is that of
`step_time`, so pretended links show what a plan foretells, and prove nothing about cables.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from rankbook.comm.operators import CALLS, calls, group_of, sizes
from rankbook.comm.ring_model import Link, ring_bytes
from rankbook.models.transformer import TransformerLM
from rankbook.predict.cost_model.layouts import message_steps
from rankbook.predict.memory.model_shape import ModelShape


def pretend_card(stage: TransformerLM, shape: ModelShape, flops: float, tp: int = 1) -> None:
    """Let the layers and the head of `stage` sleep as long as a card of `flops` FLOP/s computes.

    In place, forward and twice as long backward. stage: whole, or this rank's part of it, one of
    `tp`, also when it is sharded. shape: of the whole model; its sequence is what a row has.
    """
    row = shape.sequence / tp / flops
    for layer in stage.layers.values():
        layer.register_forward_hook(_sleeps(row * shape.flops_of_layer))
    if stage.head is not None:
        stage.head.register_forward_hook(_sleeps(row * shape.flops_of_head))


@contextmanager
def pretend_links(link: Link, per_node: int) -> Iterator[None]:
    """Let what this rank sends to another node sleep as long as `link` needs, besides being sent.

    link: a rank's own share of its node's cards; members of a group on one node use theirs
    together. per_node: ranks of a node, which are neighbours. Collectives go round a ring. Nothing
    is hidden behind anything else. Seen are the calls that `rankbook.comm.traffic` sees.
    """
    with _Sleeps(link, per_node):
        yield


def link_seconds(
    operation: str, nbytes: float, ranks: list[int], rank: int, link: Link, per_node: int
) -> float:
    """What `pretend_links` adds to one call of `rank`, in seconds; 0 inside a node.

    nbytes: what the rank hands in. ranks: of the group, or the two of a message.
    """
    together = sum(other // per_node == rank // per_node for other in ranks)
    if together == len(ranks) or operation == "recv":  # a recv ends with its send
        return 0.0
    sent = ring_bytes(operation, int(nbytes), len(ranks))
    return message_steps(operation, len(ranks)) * link.alpha + sent * link.beta / together


def _sleeps(seconds: float) -> Callable[..., None]:
    """A forward hook of a module whose pass takes `seconds` a row, and its backward the double."""

    def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        took = seconds * output.shape[0]
        time.sleep(took)
        if output.requires_grad:  # before the module's own backward
            output.register_hook(partial(_sleep_and_leave, 2 * took))

    return hook


def _sleep_and_leave(seconds: float, gradient: torch.Tensor) -> None:
    time.sleep(seconds)


class _Sleeps(TorchDispatchMode):
    def __init__(self, link: Link, per_node: int):
        super().__init__()
        self._link, self._per_node = link, per_node

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it comes again, as the collectives that it needs
        kwargs = kwargs or {}
        for name, given in calls(func, args, kwargs):
            self._sleep(name, given)
        return func(*args, **kwargs)

    def _sleep(self, name: str, given: dict[str, Any]) -> None:
        operation, argument = CALLS[name]
        group = group_of(given)
        ranks, rank = dist.get_process_group_ranks(group), dist.get_rank()
        if "dst" in given:  # a message has one target, by its number in the group
            ranks = [rank, ranks[given["dst"]]]
        nbytes = sum(sizes(given[argument])) if argument else 0
        time.sleep(link_seconds(operation, nbytes, ranks, rank, self._link, self._per_node))
