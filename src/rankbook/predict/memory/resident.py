"""By how much a process's memory grows: as the kernel says, or torch's allocator on a GPU."""

import contextlib
import ctypes
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """By how many bytes memory grows within, at its peak: `grown`, None where nothing tells.

    On a GPU, what PyTorch has given out; on a CPU, the resident memory of the process (Linux).
    Source: https://docs.pytorch.org/docs/stable/generated/torch.cuda.max_memory_allocated.html,
    and https://man7.org/linux/man-pages/man5/proc.5.html
    """

    def __init__(self, device: torch.device | str):
        self.device = torch.device(device)
        self.grown: int | None = None

    def __enter__(self) -> "PeakMemory":
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._before = torch.cuda.memory_allocated(self.device)
        else:
            _give_back()
            self._before = _resident("VmRSS") if _forget_peak() else None
        return self

    def __exit__(self, *_) -> None:
        if self._before is None:
            return
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device)
        else:
            peak = _resident("VmHWM")
        self.grown = peak - self._before


def _give_back() -> None:
    """Let the C library return what it keeps for later: it would hide what is needed anew."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _forget_peak() -> bool:
    """Let the kernel's VmHWM start again from now; False where it cannot (not Linux)."""
    try:
        CLEAR.write_text("5")  # see proc(5)
    except OSError:
        return False
    return True


def _resident(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
