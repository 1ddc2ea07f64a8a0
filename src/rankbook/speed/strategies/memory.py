"""Bytes that one rank keeps from step to step: what was measured, and what the formula says.

What it has at its fullest moment, within a step, is more: `peak` and `watch` are about that.

In 32 bits and with Adam every parameter costs 4 bytes, its gradient 4 and its two moments 8.
A strategy saves where it divides one of the three by the number of ranks.
Source: https://arxiv.org/abs/1910.02054, section 3.1 and figure 1.
"""

from dataclasses import dataclass

from rankbook.predict.memory.states import cuts, widths
from rankbook.speed.strategies.registry import entry
from rankbook.speed.strategies.strategy import Strategy

PARTS = ("parameters", "gradients", "state", "buffers")


@dataclass(frozen=True)
class Bytes:
    """What one rank has, in bytes; `buffers` are copies on their way to or from other ranks.

    gathered: parameters that came from other ranks for a layer's work. activations: and all else
    that operations need for a moment.
    """

    parameters: float
    gradients: float
    state: float
    buffers: float = 0
    gathered: float = 0
    activations: float = 0

    @property
    def total(self) -> float:
        """All of them."""
        return sum(vars(self).values())


def formula(strategy: str, parameters: int, ranks: int) -> Bytes:
    """What a model of so many `parameters` needs on each of `ranks`, in 32 bits with Adam.

    Parts that are cut are cut evenly here; real ones are rounded up, or cut between parameters.
    Buffers are not in the formula: how large they are is a setting.
    Gradients are counted as the optimizer finds them: in DeepSpeed's stage 1 those of other
    ranks' shards exist until backward ends, and in its stages 1 and 2 a parameter that lies on the
    border of two shards leaves its whole gradient on both ranks. Raises ValueError for an unknown
    strategy.
    """
    known, width = entry(strategy), widths("float32")
    cut = cuts(known.zero, ranks)
    return Bytes(
        width.parameter * parameters / cut[0],
        width.gradient * parameters / cut[1],
        known.state * parameters / cut[2],
    )


def measured(trained: Strategy) -> Bytes:
    """What this rank keeps after a step of `trained`: each storage once, under its first part."""
    held, seen = trained.held(), {}
    found = {}
    for part in PARTS:
        new = {at: size for at, size in held[part].items() if at not in seen}
        found[part] = sum(new.values())
        seen |= new
    return Bytes(**found)
