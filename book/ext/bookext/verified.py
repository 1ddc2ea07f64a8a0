"""With what a chapter was verified: ranks, backend, device. Imports only the standard library."""

import os
import re

STARTED = re.compile(r"^(\d+) ranks? after [\d.]+ s: (\w+) on (\w+)", re.MULTILINE)
LAUNCHED = re.compile(r"^%%torchrun\b.*--nproc[-_]per[-_]node[= ](\d+)", re.MULTILINE)
ON_NODES = re.compile(r"^n\d+: rank \d+ of (\d+)", re.MULTILINE)  # what a job on a cluster said


def placement(text: str) -> dict:
    """Ranks, backend and device of a chapter.

    text: its cells and what they printed; ``%ranks start`` prints which backend and device it took.
    """
    started = max(STARTED.findall(text), key=lambda found: int(found[0]), default=None)
    launched = max(map(int, LAUNCHED.findall(text) + ON_NODES.findall(text)), default=0)
    ranks, backend, device = started or (0, "", "cpu")
    return {
        "ranks": max(int(ranks), launched),
        "backend": backend,
        "gpu": gpu_names() if device == "cuda" else "",
        "cores": len(os.sched_getaffinity(0)),
    }


def gpu_names() -> str:
    """This machine's GPUs, such as ``2 × NVIDIA H200``."""
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
