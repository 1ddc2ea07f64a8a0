"""What a device can do at best, what a step needs, and how much memory it takes."""

import time
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.optim import Optimizer

from rankbook.core.timing import time_once
from rankbook.models.classifier import ClassifierConfig
from rankbook.speed.precision import SIXTEEN, matmuls


def step_flop(config: ClassifierConfig, lengths: torch.Tensor) -> int:
    """FLOP of a training step on texts of `lengths` (rows,) real tokens, without padding.

    The matrix products of the forward pass, and twice as many going back: one for the gradient
    of each of the two factors. Source: https://arxiv.org/abs/2001.08361, section 2.1.
    """
    return int(3 * config.forward_flop(lengths).sum())


FORMATS = {"cpu": ("float32", "bf16"), "cuda": ("float32", "tf32", "fp16", "bf16")}
_best: dict[tuple, float] = {}  # FLOP/s by format, device and threads; they only ever rise


def matmul_peak(
    precision: str,
    device: torch.device | str = "cpu",
    seconds: float = 0.3,
    *,
    again: bool = False,
) -> float:
    """FLOP per second of one large square matmul in `precision`: what this device can do at best.

    The fastest of the repetitions within about `seconds`: a limit, not a mean. A CPU multiplies
    smaller ones, too, and only them if one large product would take longer than that. Kept for the
    process, for each number of torch's threads; measured `again`, it can only rise, since a busy
    machine makes a product slower and nothing makes it faster than it can be.
    precision: "float32", "tf32", "fp16" or "bf16".
    """
    device = torch.device(device)
    key = (precision, str(device), torch.get_num_threads())
    if again or key not in _best:
        found = _matmul_flop_per_s(precision, device, seconds)
        _best[key] = max(found, _best.get(key, 0.0))
    return _best[key]


def _matmul_flop_per_s(precision: str, device: torch.device, seconds: float) -> float:
    dtype = SIXTEEN.get(precision, torch.float32)
    sizes = (8192,) if device.type == "cuda" else (256, 1024)
    best = 0.0
    with matmuls(precision):
        for n in sizes:
            if best and 2 * n**3 / best > seconds:
                break  # without instructions for a format, a CPU's product takes seconds
            product, times = _product(n, dtype, device), []
            product()
            begin = time.perf_counter()
            while len(times) < 2 or time.perf_counter() - begin < seconds / len(sizes):
                times.append(product())
            best = max(best, 2 * n**3 / min(times))
    return best


def _product(n: int, dtype: torch.dtype, device: torch.device) -> Callable[[], float]:
    """What multiplies two square matrices, and returns its seconds."""
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return lambda: time_once(lambda: a @ b, device)


def device_peak(device: torch.device | str = "cpu", *, again: bool = False) -> float:
    """FLOP/s of the device's best product in one of `FORMATS`: the denominator of every share.

    FP8 is none of them: the book trains in 16 bits and more. A row in 32 bits is divided by it,
    too. That is the point: one denominator, so that shares of rows in different formats can be
    compared.
    """
    device = torch.device(device)
    return max(matmul_peak(format, device, again=again) for format in FORMATS[device.type])


def share_of_peak(flop_per_s: float, device: torch.device | str = "cpu", tries: int = 5) -> float:
    """`flop_per_s` over `device_peak`: never above 1.

    A peak that was measured while others used the machine is too low, so anything that beats it
    has it measured again, up to `tries` times. Raises ValueError if it still beats all of them:
    then its FLOP or its seconds are counted wrongly.
    """
    peak = device_peak(device)
    while flop_per_s > peak and tries > 0:
        peak, tries = device_peak(device, again=True), tries - 1
    if flop_per_s > peak:
        raise ValueError(
            f"{flop_per_s:.3g} FLOP/s is more than this device's best product reaches "
            f"({peak:.3g}); check how the FLOP and the seconds were counted"
        )
    return flop_per_s / peak


def state_bytes(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Bytes of what stays from step to step: ``parameters``, ``gradients``, ``optimizer``."""
    parameters = list(model.parameters())
    slots = (slot for state in optimizer.state.values() for slot in state.values())
    return {
        "parameters": _bytes(parameters),
        "gradients": _bytes(p.grad for p in parameters if p.grad is not None),
        "optimizer": _bytes(slot for slot in slots if torch.is_tensor(slot)),
    }


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
