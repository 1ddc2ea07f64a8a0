"""The number formats that matmuls run in: 16 bits by autocast, or TF32.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# cuBLAS reads it once, at the process's first product, and deterministic algorithms ask for it:
# what a Trainer sets later comes too late. On Hopper cuBLAS takes this workspace by itself.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

SIXTEEN = {"fp16": torch.float16, "bf16": torch.bfloat16}


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context for a forward pass in "fp16" or "bf16"; for the others it changes nothing."""
    dtype = SIXTEEN.get(precision, torch.bfloat16)
    return torch.autocast(device.type, dtype, enabled=precision in SIXTEEN)


@contextmanager
def matmuls(precision: str) -> Iterator[None]:
    """Let float32 matmuls of this process use TF32 within, if `precision` is "tf32".

    The setting is the process's, not the model's: recipes that take turns must set it each time.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
