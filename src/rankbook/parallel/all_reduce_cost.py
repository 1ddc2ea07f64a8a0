"""How long an all_reduce takes, against the size of its message: seconds = alpha + beta x bytes.

Source of the model: R. Thakur et al., "Optimization of Collective Communication Operations in
MPICH", 2005, section 3, https://doi.org/10.1177/1094342005051521
"""

import time

import torch
import torch.distributed as dist

WARM_UP = 2


def time_all_reduce(
    sizes: list[int],
    repeats: int,
    device: torch.device,
) -> torch.Tensor:
    """Seconds that all_reduce takes the slowest rank: [sizes, repeats].

    sizes: in bytes, multiples of 4. device: where the messages lie. Each repetition goes through
    all sizes, so that whatever else the machine does for a while strikes all of them alike.
    """
    seconds = torch.zeros(len(sizes), repeats, device=device)
    for repeat in range(-WARM_UP, repeats):
        for i, size in enumerate(sizes):
            x = torch.zeros(size // 4, device=device)  # of float32
            dist.barrier()  # nobody waits for a rank that is late
            _finish(device)
            start = time.perf_counter()
            dist.all_reduce(x)
            _finish(device)
            if repeat >= 0:
                seconds[i, repeat] = time.perf_counter() - start
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds.cpu()


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


def _finish(device: torch.device) -> None:
    """A GPU works on after the call has returned; the CPU does not."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
