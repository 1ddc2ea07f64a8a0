"""The GPUs: as many as expected, with kernels for them, free, and reaching each other directly.

They are asked in a process of their own: one that has looked at a GPU keeps some of its memory,
and where a GPU serves one process only, the ranks could not use it any more.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from rankbook.doctor.finding import Finding, Options, number, ok, problem, size, skipped, warning

BUSY = 0.1  # the share of a GPU's memory that others may hold without a word


def facts() -> list[dict]:
    """Of each GPU: name, bytes of memory (free, total), whether torch has kernels, its peers."""
    import torch

    def about(gpu: int) -> dict:
        major, minor = torch.cuda.get_device_capability(gpu)
        free, total = torch.cuda.mem_get_info(gpu)
        others = [other for other in range(count) if other != gpu]
        return {
            "name": torch.cuda.get_device_name(gpu),
            "capability": f"{major}.{minor}",
            "kernels": torch.version.hip is not None or runs(torch, gpu),
            "free": free,
            "total": total,
            "peers": [o for o in others if torch.cuda.can_device_access_peer(gpu, o)],
        }

    count = torch.cuda.device_count()
    return [about(gpu) for gpu in range(count)]


def runs(torch, gpu: int) -> bool:
    """Whether a kernel of this torch runs on `gpu`."""
    try:
        return torch.ones(2, device=f"cuda:{gpu}").sum().item() == 2
    except RuntimeError:  # no kernel image is available for execution on the device
        return False


def findings(options: Options) -> Iterator[Finding]:
    """What can be said of the GPUs of this machine."""
    import torch

    from rankbook.doctor.versions import has_driver

    if torch.version.cuda is None and torch.version.hip is None:
        yield none_seen(has_driver(), os.environ)
        return
    command = [sys.executable, "-m", "rankbook.doctor.gpus"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=options.seconds - 1, check=True
        )
    except subprocess.TimeoutExpired:
        says = (
            f"The GPUs did not answer in {options.seconds:.0f} s: does nvidia-smi? If not, reboot."
        )
        yield problem("gpus", says)
        return
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["nothing said"])[-1]
        yield problem("gpus", f"The GPUs cannot be used ({said}): what does nvidia-smi say?")
        return
    yield from judge(json.loads(told.stdout.splitlines()[-1]), has_driver(), os.environ)


def judge(gpus: list[dict], driver: bool, environment: Mapping[str, str]) -> Iterator[Finding]:
    """gpus: as `facts` returns them. driver: whether the machine has one."""
    if not gpus:
        yield none_seen(driver, environment)
        return
    yield counted(gpus, environment)
    for index, gpu in enumerate(gpus):
        yield from healthy(index, gpu)
    yield peers([gpu["peers"] for gpu in gpus])


def none_seen(driver: bool, environment: Mapping[str, str]) -> Finding:
    """torch sees no GPU: as it should be, or because somebody hides them."""
    hidden = [n for n in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if n in environment]
    allotted = number(environment, "SLURM_GPUS_ON_NODE") or 0
    if allotted or (driver and not hidden):
        whose = f"Slurm allotted {allotted}" if allotted else "there is a driver"
        says = f"torch sees no GPU, though {whose}: compare nvidia-smi and torch.version.cuda."
        return problem("gpus", says, 0)
    if driver:
        says = f"{hidden[0]}={environment[hidden[0]]!r} hides the GPUs: unset it."
        return warning("gpus", says, 0)
    says = "No GPU: programs train on the CPU with gloo; a job that needs one fails here."
    return warning("gpus", says, 0)


def counted(gpus: list[dict], environment: Mapping[str, str]) -> Finding:
    """As many as Slurm allotted?"""
    names = ", ".join(sorted({gpu["name"] for gpu in gpus}))
    allotted = number(environment, "SLURM_GPUS_ON_NODE")
    if allotted not in (None, len(gpus)):
        says = f"torch sees {len(gpus)} of {allotted} GPUs that Slurm allotted to this node: use "
        return problem("gpus", f"{says}--gpus-per-node, and no --gpus-per-task.", len(gpus))
    return ok("gpus", f"{len(gpus)} x {names}.", gpus)


def healthy(index: int, gpu: dict) -> Iterator[Finding]:
    """What is wrong with one GPU, if anything."""
    if not gpu["kernels"]:
        says = f"GPU {index} ({gpu['name']}, {gpu['capability']}) runs no kernel of this torch"
        yield problem("gpu", f"{says}: install a build for it.", gpu["capability"])
    held = gpu["total"] - gpu["free"]
    if held > BUSY * gpu["total"]:
        says = f"{size(held)} of {size(gpu['total'])} of GPU {index} are held by others"
        yield warning("gpu", f"{says}: see nvidia-smi, and end what was left running.", held)


def peers(reach: list[list[int]]) -> Finding:
    """reach: for each GPU, those whose memory it can read and write directly."""
    pairs = [(a, b) for a in range(len(reach)) for b in range(len(reach)) if a != b]
    apart = [(a, b) for a, b in pairs if b not in reach[a]]
    if len(reach) == 1:
        return skipped("peer access", "Peer access: there is one GPU.")
    if not apart:
        return ok("peer access", "Each GPU reaches the memory of every other directly.", reach)
    a, b = apart[0]
    says = f"GPU {a} does not reach the memory of GPU {b} (in all {len(apart)} of {len(pairs)} "
    return warning(
        "peer access",
        f"{says}pairs): NCCL then goes through host memory; nvidia-smi topo -m shows the ways.",
        reach,
    )


if __name__ == "__main__":
    print(json.dumps(facts()))
