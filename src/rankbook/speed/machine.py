"""What a device can do at best: its products, its memory, and what a launch costs."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rankbook.core.timing import now
from rankbook.speed.measure import FORMATS, matmul_peak

# FLOP/s of dense bfloat16 products, from the makers' data sheets
VENDOR = {
    "H200": 989e12, "H100": 989e12, "B200": 2250e12, "A100": 312e12, "L40S": 362e12,
    "4090": 165e12,
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Limits of one device, measured.

    products: FLOP/s of a large matrix product by format. bytes_per_s: read and written together,
    by one large operation. call_s: seconds that one operation on next to nothing takes in a
    training step, with all that Python and autograd do for it. vendor: FLOP/s of the maker's data
    sheet, None where it is not known here.
    """

    name: str
    products: dict[str, float]
    bytes_per_s: float
    call_s: float
    vendor: float | None = None

    @property
    def peak(self) -> float:
        """FLOP/s of its best product: the one denominator of every share, whatever its dtype."""
        return max(self.products.values())

    @property
    def ridge(self) -> float:
        """FLOP a byte from which on arithmetic takes longer than memory, at the peak."""
        return self.peak / self.bytes_per_s

    def product(self, format: str) -> float:
        """FLOP/s in `format`: of the slowest product where it was not measured."""
        return self.products.get(format, min(self.products.values()))


def measure_machine(device: torch.device | str = "cpu") -> Machine:
    """The limits of `device`, with torch's present number of threads; measured once for each."""
    return _measured(torch.device(device), torch.get_num_threads())


@functools.cache
def _measured(device: torch.device, threads: int) -> Machine:
    name = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {threads} threads"
    )
    return Machine(
        name,
        {format: matmul_peak(format, device) for format in FORMATS[device.type]},
        _bytes_per_s(device),
        _call_s(device),
        next((flop for card, flop in VENDOR.items() if card in name), None),
    )


def _bytes_per_s(device: torch.device) -> float:
    """Of a copy that fits into no cache, into memory that is there already."""
    count = 2**28 if device.type == "cuda" else 2**24
    a, b = torch.ones(count, device=device), torch.ones(count, device=device)
    return 2 * a.nbytes / _best(lambda: b.copy_(a), device)


def _call_s(device: torch.device) -> float:
    """Of a training step on next to nothing, shared out among all the operations in it."""
    layers = [part for _ in range(4) for part in (nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())]
    model = nn.Sequential(*layers).to(device)
    adam, x = torch.optim.Adam(model.parameters()), torch.ones(1, 8, device=device)

    def step() -> None:
        adam.zero_grad()
        model(x).sum().backward()
        adam.step()

    step()
    with _Counting() as counting:
        step()
    return _best(step, device) / counting.calls


class _Counting(TorchDispatchMode):
    """How many operations are launched, views included."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def _best(work: Callable[[], object], device: torch.device, seconds: float = 0.2) -> float:
    """The fastest of all repetitions in `seconds`, the first one left out."""
    work()
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = now(device)
        work()
        times.append(now(device) - start)
    return min(times)
