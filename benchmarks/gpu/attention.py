"""Attention alone, the longer the sequence: scores written down, or never (a fused kernel).

A forward and a backward pass of one layer's attention in bfloat16 on one device: the most bytes
that tensors held beyond those of the inputs, by length, and the time. Scores that are written down
are length x length for each head; what a fused kernel keeps grows with the length.
"""

import sys
from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from rankbook.core.timing import time_once

WHAT = (
    "Causal attention of {heads} heads of {d_head}, one sequence, bfloat16, forward and backward: "
    "MiB at the fullest moment beyond the inputs, the median of milliseconds of five"
)
WAYS = {"scores written": SDPBackend.MATH, "fused": SDPBackend.FLASH_ATTENTION}
REPEATS = 5
LENGTHS = [2**power for power in range(11, 18)]  # 2,048 to 131,072


def main(arguments: list[str] | None = None) -> int:
    """Measure what was not measured yet; 1 if a row has failed."""
    options = parse(arguments, "Measure attention by the length of its sequence.")
    heads, d_head, lengths = (2, 16, [64, 128]) if options.tiny else (16, 64, LENGTHS)
    what = WHAT.format(heads=heads, d_head=d_head)
    rows = Rows("attention-gpu-1", what, options.device)
    for length in lengths:
        for name, backend in WAYS.items():
            rows.measure(
                f"{length}, {name}",
                lambda n=length, b=backend: attend(n, heads, d_head, b, options.device),
            )
    return rows.failed()


def attend(length: int, heads: int, d_head: int, backend: SDPBackend, device: torch.device) -> dict:
    """One row. Scores that the device cannot hold are skipped, in words."""
    shape = 1, heads, length, d_head
    q, k, v = (
        torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    try:
        held, seconds = measured(lambda: once(q, k, v, backend), device)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        raise LookupError("more than this GPU holds") from None
    found = {"length": length, "ms": round(1e3 * seconds, 2)}
    return found | ({"MiB": round(held / 2**20, 1)} if device.type == "cuda" else {})


def once(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, backend: SDPBackend) -> None:
    """Forward and backward; gradients are dropped."""
    with sdpa_kernel(backend):
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.autograd.grad(y.sum(), (q, k, v))


def measured(work, device: torch.device) -> tuple[int, float]:
    """The most bytes held during `work` beyond those before it, and its median seconds."""
    work()  # a kernel that is built at its first use
    before = most = 0
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    taken = [time_once(work, device) for _ in range(REPEATS)]
    if device.type == "cuda":
        most = torch.cuda.max_memory_allocated(device) - before
    return most, median(taken)


if __name__ == "__main__":
    sys.exit(main())
