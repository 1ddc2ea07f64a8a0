"""The link between nodes, and what follows from it for a tree, for latency, and for local SGD."""

from collections.abc import Mapping
from math import ceil, floor, log2, log10

from rankbook.comm.ring_model import Link
from rankbook.predict.cost_model.cluster_spec import ClusterSpec


def assumed_link(spec: ClusterSpec) -> Link:
    """Between nodes of `spec`: each rank has a card of its own and they share the message."""
    bandwidth = spec.ranks_per_node * spec.link_bandwidth
    return Link(f"{bandwidth * 8e-9:g} Gbit/s a node, assumed", spec.latency, 1 / bandwidth)


def fitted_link(result: Mapping) -> Link:
    """The link behind a result of benchmarks/all_reduce.py, whose line is of the whole ring."""
    ranks, fit = result["ranks"], result["fit"]
    steps = 2 * (ranks - 1)
    name = f"{result['backend']}, fitted to {ranks} ranks"
    beta = fit["beta_seconds_per_byte"] * ranks / steps
    return Link(name, fit["alpha_seconds"] / steps, beta)


def tree(n: int, nbytes: float, link: Link) -> float:
    """Seconds of an all_reduce of `nbytes` by two trees of `n`, each for half of the message.

    Up and down, piece behind piece: they use the whole bandwidth, as NCCL's do.
    Source: Sanders, Speck and Träff, https://doi.org/10.1016/j.parco.2009.09.001
    """
    if n == 1:
        return 0.0
    return 2 * ceil(log2(n)) * link.alpha + 2 * nbytes * link.beta


def crossing(nbytes: float, link: Link) -> float:
    """The size of ring from which latency takes more of its time than bandwidth does.

    There the two terms of `ring` are equal: alpha = nbytes / n beta.
    """
    return nbytes * link.beta / link.alpha


def steps_between(meeting: float, step: float, share: float = 0.1) -> int:
    """After how many steps alone replicas should meet, so that meetings take `share` of the time.

    meeting, step: seconds of each. Rounded up to 1, 2 or 5 times a power of ten.
    """
    least = meeting * (1 - share) / (share * step)
    if least <= 1:
        return 1
    power = 10 ** floor(log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))
