"""Which strategy fits a card, and sends least? By the formulas of `peak`, in 32 bits with Adam.

Source of what is sent: https://arxiv.org/abs/1910.02054, section 7, for a ring; of what goes
between card and host: https://arxiv.org/abs/2101.06840, section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rankbook.speed.strategies.peak import ParameterCounts, peak


@dataclass(frozen=True)
class Candidate:
    """A way to train: bytes on the card of a rank, and its traffic in a step.

    whole: how often all parameters' bytes go round the ring, each time (n - 1) / n of them. pcie:
    how often this rank's share of them goes between card and host.
    """

    name: str
    card: Callable[[ParameterCounts, int], float]
    whole: int
    pcie: Callable[[int], float] = lambda ranks: 0.0

    def traffic(self, counts: ParameterCounts, ranks: int) -> dict[str, float]:
        """Bytes of a rank and a step over the "network" and over "pcie"."""
        all_of_it = 4 * counts.total
        return {
            "network": self.whole * all_of_it * (ranks - 1) / ranks,
            "pcie": self.pcie(ranks) * all_of_it / ranks,
        }


def _by_peak(name: str) -> Callable[[ParameterCounts, int], float]:
    return lambda counts, ranks: peak(name, counts, ranks).total


def _gathered_only(counts: ParameterCounts, ranks: int) -> float:
    """FSDP2 with its shards on the host: what is gathered, and what is sent, is on the card."""
    found = peak("fsdp2", counts, ranks)
    return found.gathered + 2 * found.buffers  # a layer's gradients, and those again to be sent


def _parameters_only(counts: ParameterCounts, ranks: int) -> float:
    """ZeRO-Offload: the parameters, and a bucket of gradients on their way to the host."""
    found = peak("deepspeed2", counts, ranks)
    return found.parameters + 2 * found.buffers


# From the cheapest on. A share's gradients go down and its new values up; FSDP2 fetches its shards
# twice a step, once for each pass. DeepSpeed 2 gives all parameters of a card to each rank again.
WAYS = (
    Candidate("DDP", _by_peak("ddp"), whole=2),
    Candidate("FSDP2, kept", _by_peak("fsdp2, kept"), whole=2),
    Candidate("FSDP2", _by_peak("fsdp2"), whole=3),
    Candidate("ZeRO 2, state on the host", _parameters_only, whole=3, pcie=lambda ranks: 2),
    Candidate("FSDP2, all on the host", _gathered_only, whole=3, pcie=lambda ranks: 3),
)


def cheapest(
    counts: ParameterCounts, ranks: int, card: float, activations: float = 0
) -> Candidate | None:
    """The first of `WAYS` that fits `card` bytes with `activations` of them: None if none does.

    Ranked by what goes over PCIe first, since the host's processor does the update then, and by
    the network second. Activations are counted on top of the peak without them: an upper bound.
    Raises ValueError for ranks below 1 or a card of no bytes.
    """
    if ranks < 1 or card <= 0:
        raise ValueError(f"there must be ranks and a card, not {ranks} and {card:g} bytes")
    fitting = (way for way in WAYS if way.card(counts, ranks) + activations <= card)
    return next(fitting, None)
