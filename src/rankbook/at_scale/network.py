"""How long an all_reduce takes by the alpha-beta model: a ring, and a tree.

Sources: chapter 1, for the model; Patarasuk and Yuan, JPDC 69 (2009), for the ring; Sanders, Speck
and Träff, Parallel Computing 35 (2009), for two trees that use the whole bandwidth, as NCCL does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2

from rankbook.at_scale.site import Site


@dataclass(frozen=True)
class Link:
    """From one member of a ring to the next: alpha seconds a step, and beta seconds a byte."""

    name: str
    alpha: float
    beta: float

    @classmethod
    def of(cls, site: Site) -> "Link":
        """Between nodes of `site`: each rank has a card of its own and they share the message."""
        together = site.ranks_per_node * site.link_bandwidth
        return cls(f"{together * 8e-9:g} Gbit/s a node, assumed", site.latency, 1 / together)


def fitted_link(result: Mapping) -> Link:
    """The link behind a result of benchmarks/all_reduce.py, whose line is of the whole ring."""
    ranks, fit = result["ranks"], result["fit"]
    steps = 2 * (ranks - 1)
    name = f"{result['backend']}, fitted to {ranks} ranks"
    beta = fit["beta_seconds_per_byte"] * ranks / steps
    return Link(name, fit["alpha_seconds"] / steps, beta)


def ring(n: int, nbytes: float, link: Link) -> float:
    """Seconds of an all_reduce of `nbytes` by a ring of `n`: 2 (n - 1) steps, a chunk in each."""
    return 2 * (n - 1) * (link.alpha + nbytes / n * link.beta)


def tree(n: int, nbytes: float, link: Link) -> float:
    """The same by two trees, each for half of the message: up and down, piece behind piece."""
    if n == 1:
        return 0.0
    return 2 * ceil(log2(n)) * link.alpha + 2 * nbytes * link.beta


def crossing(nbytes: float, link: Link) -> float:
    """The size of ring from which latency takes more of its time than bandwidth does."""
    return nbytes * link.beta / link.alpha
