"""Checkpoints and failures: how many bytes, how long, how often, and what is lost all the same."""

from math import exp, expm1, sqrt

from rankbook.cost_model.cluster_spec import ClusterSpec

# bytes a parameter: bfloat16 weights; float32: their master copy, Adam's two averages
WEIGHTS, MASTER, ADAM = 2, 4, 8


def state_bytes(parameters: float) -> float:
    """Bytes of a checkpoint of mixed-precision training with Adam; gradients are not kept.

    Source: ZeRO, https://arxiv.org/abs/1910.02054, section 3.1
    """
    return parameters * (WEIGHTS + MASTER + ADAM)


def write_seconds(nodes: int, nbytes: float, spec: ClusterSpec, sharded: bool = True) -> float:
    """Seconds to write `nbytes`: each node its share, or all of it by the node of rank 0."""
    writers = nodes if sharded else 1
    return nbytes / min(spec.disk_bandwidth, writers * spec.node_bandwidth)


def job_mtbf(nodes: int, spec: ClusterSpec) -> float:
    """Seconds between failures of a job that any failing node ends: the rates of nodes add up."""
    return spec.node_mtbf / nodes


def best_period(save: float, mtbf: float) -> float:
    """Seconds of work between saves of `save` seconds: sqrt(2 save mtbf).

    Source: Young, https://doi.org/10.1145/361147.361115
    """
    return sqrt(2 * save * mtbf)


def lost_share(save: float, period: float, mtbf: float, restart: float) -> float:
    """The share of the time that does not train: saving, what is done again, starting again.

    All in seconds. `period` seconds of work take, as an expectation that is exact where failures
    come at random (exponentially), mtbf exp(restart / mtbf) (exp((period + save) / mtbf) - 1).
    Source: Daly, https://doi.org/10.1016/j.future.2004.11.016
    """
    takes = mtbf * exp(restart / mtbf) * expm1((period + save) / mtbf)
    return 1 - period / takes
