"""How long an all_reduce takes: measured, and foretold by seconds = alpha + beta x bytes.

Source of the model: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective
Communication Operations in MPICH", 2005, section 3, https://doi.org/10.1177/1094342005051521
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.distributed as dist

from rankbook.comm.ring_model import ring_bytes
from rankbook.core.timing import time_interleaved

WAYS = ("by rank 0", "ring", "halving and doubling", "library")


def time_messages(
    ways: Mapping[str, Callable],
    repeats: Mapping[int, int],
    device: torch.device,
) -> dict[str, list[torch.Tensor]]:
    """Seconds that each way takes the slowest rank: a tensor [repeats] for every size.

    ways: functions of one tensor. repeats: how often for a size in bytes, a multiple of 4. All
    ranks call. Sizes and ways are timed by turns, all on the same tensor of zeros of a size.
    """
    jobs, counts = {}, {}
    for size, count in repeats.items():
        x = torch.zeros(size // 4, device=device)
        jobs |= {(name, size): partial(way, x) for name, way in ways.items()}
        counts |= {(name, size): count for name in ways}
    seconds = time_interleaved(jobs, counts, device, clock="slowest rank")
    return {name: [torch.tensor(seconds[name, size]) for size in repeats] for name in ways}


def time_all_reduce(sizes: list[int], repeats: int, device: torch.device) -> torch.Tensor:
    """Seconds that the library's all_reduce takes the slowest rank: [sizes, repeats].

    sizes: in bytes, multiples of 4. device: where the messages lie.
    """
    ways, counts = {"library": dist.all_reduce}, dict.fromkeys(sizes, repeats)
    return torch.stack(time_messages(ways, counts, device)["library"])


def time_ping_pong(repeats: Mapping[int, int], device: torch.device) -> list[torch.Tensor]:
    """Seconds of one message between rank 0 and rank 1: a tensor [repeats] for every size.

    repeats: how often for a size in bytes, a multiple of 4. Half of the time from a send to the
    answer of the same size, by rank 0's clock; all ranks call, and all get its times.
    """
    jobs = {size: partial(_round_trip, torch.zeros(size // 4, device=device)) for size in repeats}
    seconds = time_interleaved(jobs, repeats, device, clock="rank 0")
    return [torch.tensor(times) / 2 for times in seconds.values()]


def _round_trip(x: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    elif dist.get_rank() == 1:
        dist.recv(x, 0)
        dist.send(x, 0)


def predict(way: str, n: int, nbytes: float, alpha: float, beta: float) -> float:
    """Seconds that an all_reduce of `nbytes` over `n` ranks should take by the model.

    way: one of WAYS; the library's, with gloo, is a ring as well. alpha in s, beta in s/byte: of
    one message. Raises ValueError for another way.
    """
    power = 1 << n.bit_length() - 1  # the largest power of two up to n
    fold = 2 * (power < n)
    terms = {
        "by rank 0": (2 * (n - 1), 2 * (n - 1)),
        **dict.fromkeys(("ring", "library"), (2 * (n - 1), ring_bytes("all_reduce", 1, n))),
        "halving and doubling": (
            2 * (power.bit_length() - 1) + fold,
            2 * (power - 1) / power + fold,
        ),
    }
    if way not in terms:
        raise ValueError(f"predict: {way!r} is unknown; use one of {', '.join(WAYS)}")
    steps, sent = terms[way]
    return steps * alpha + sent * nbytes * beta


def fit_alpha_beta(nbytes: torch.Tensor, seconds: torch.Tensor) -> tuple[float, float]:
    """The line ``seconds = alpha + beta * nbytes`` that fits best: (alpha in s, beta in s/byte).

    nbytes, seconds: 1-D, equal lengths, seconds above 0 (medians, best). What is made small is the
    sum of the absolute *relative* errors: microseconds count as much as seconds, and a few sizes
    that do not lie on the line do not bend it. Neither value is negative.
    """
    size, time_ = nbytes.double(), seconds.double()
    lines = torch.stack([1 / time_, size / time_], dim=1)  # lines @ (alpha, beta) should be 1
    scale = lines.norm(dim=0)
    weights = torch.ones_like(time_)
    for _ in range(50):  # least squares, reweighted until it is the sum of absolute errors
        root = weights.sqrt()
        fitted = torch.linalg.lstsq(lines / scale * root[:, None], root[:, None]).solution[:, 0]
        fitted = fitted.clamp(min=0)
        weights = 1 / (lines / scale @ fitted - 1).abs().clamp(min=1e-3)
    alpha, beta = (fitted / scale).tolist()
    return alpha, beta
