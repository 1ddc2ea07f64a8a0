"""Checkpoints and failures: how many bytes, how long, how often, and what is lost all the same.

Sources: Young, CACM 17 (1974), for the period; Daly, Future Generation Computer Systems 22 (2006),
for the share that is lost, exact where failures come at random (exponentially).
"""

from math import exp, expm1, sqrt

from rankbook.at_scale.site import Site

# bytes a parameter: bfloat16 weights; float32: their master copy, Adam's two averages
WEIGHTS, MASTER, ADAM = 2, 4, 8


def state_bytes(parameters: float) -> float:
    """Bytes of a checkpoint of mixed-precision training with Adam; gradients are not kept."""
    return parameters * (WEIGHTS + MASTER + ADAM)


def write_seconds(nodes: int, nbytes: float, site: Site, sharded: bool = True) -> float:
    """Seconds to write `nbytes`: each node its share, or all of it by the node of rank 0."""
    writers = nodes if sharded else 1
    return nbytes / min(site.disk_bandwidth, writers * site.node_bandwidth)


def job_mtbf(nodes: int, site: Site) -> float:
    """Seconds between failures of a job that any failing node ends."""
    return site.node_mtbf / nodes


def best_period(save: float, mtbf: float) -> float:
    """Seconds of work between saves of `save` seconds: Young's sqrt(2 save mtbf)."""
    return sqrt(2 * save * mtbf)


def lost_share(save: float, period: float, mtbf: float, restart: float) -> float:
    """The share of the time that does not train: saving, what is done again, starting again.

    All in seconds. Daly's expectation: `period` seconds of work take
    mtbf exp(restart / mtbf) (exp((period + save) / mtbf) - 1).
    """
    takes = mtbf * exp(restart / mtbf) * expm1((period + save) / mtbf)
    return 1 - period / takes
