"""Checkpoints and failures: how many bytes, how long, how often, and what is lost all the same."""

import random
from dataclasses import dataclass
from math import exp, expm1, floor, log1p, sqrt
from statistics import mean, stdev

from rankbook.predict.cost_model.cluster_spec import ClusterSpec

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


def exact_best_period(save: float, mtbf: float) -> float:
    """The period at which `lost_share` is smallest; `best_period` is near it if saves are short.

    With u = period / mtbf it is where u + log(1 - u) + save / mtbf = 0, which falls from u = 0 to 1
    and is halved down to the last bit. Neither restart nor delay changes it.

    Source: the derivative of equation 20 of Daly, https://doi.org/10.1016/j.future.2004.11.016
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        u = (low + high) / 2
        low, high = (u, high) if u + log1p(-u) + save / mtbf > 0 else (low, u)
    return mtbf * (low + high) / 2


def lost_share(
    save: float, period: float, mtbf: float, restart: float, delay: float = 0.0
) -> float:
    """The share of the time that does not train: saving, what is done again, starting again.

    All in seconds. save: training stands still for it, after every `period` of work. delay: from
    there until the checkpoint is durable; a failure meanwhile goes back to the one before. At most
    `period`. restart: from a failure to the next step; it may fail, too.

    Exact where failures come at random (exponentially, one in `mtbf`): a failure finds as many
    durable checkpoints as there are numbers i with i (period + save) + delay before it, so of
    mtbf exp(restart / mtbf) seconds the work of exp(-delay / mtbf) / (exp((period + save) / mtbf)
    - 1) periods stays. Without a delay it is equation 20 of Daly,
    https://doi.org/10.1016/j.future.2004.11.016: the delay costs what a longer restart would.
    """
    takes = mtbf * exp((restart + delay) / mtbf) * expm1((period + save) / mtbf)
    return 1 - period / takes


@dataclass(frozen=True)
class Lost:
    """Where the lost share of the time goes: standing still, doing again, starting again."""

    saves: float
    again: float
    restarts: float

    @property
    def share(self) -> float:
        """All of it: what `lost_share` says."""
        return self.saves + self.again + self.restarts


def lost_parts(save: float, period: float, mtbf: float, restart: float, delay: float = 0.0) -> Lost:
    """`lost_share` in three parts; the same arguments.

    saves: what would be lost if nothing ever failed. again: what failures add if going on takes no
    time, the work since the last save. restarts: what the restart, and the delay, add to that.
    """
    saves = save / (period + save)
    at_once = lost_share(save, period, mtbf, restart=0.0)
    whole = lost_share(save, period, mtbf, restart, delay)
    return Lost(saves, at_once - saves, whole - at_once)


def simulated_loss(
    save: float,
    period: float,
    mtbf: float,
    restart: float,
    delay: float = 0.0,
    failures: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The lost share of a run that fails at random `failures` times, and its standard error.

    The arguments of `lost_share`. Nothing is computed from a formula: failures are drawn, and what
    each finds durable is counted.
    """
    chance = random.Random(seed)
    kept, taken = [], []
    for _ in range(failures):
        works = chance.expovariate(1 / mtbf)  # until the next failure
        durable = max(0, floor((works - delay) / (period + save)))
        kept.append(durable * period)
        took = works + restart
        while (again := chance.expovariate(1 / mtbf)) < restart:
            took += again  # it failed while it started again
        taken.append(took)
    share = sum(kept) / sum(taken)
    spread = stdev(k - share * t for k, t in zip(kept, taken, strict=True))  # of a ratio of means
    return 1 - share, spread / (mean(taken) * sqrt(failures))
