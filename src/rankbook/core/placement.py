"""One rule for notebook and cluster: nccl with a GPU for every rank, otherwise gloo."""

import datetime
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Placement:
    """Where one rank runs: `backend` ("nccl" or "gloo"), `device`, and `why`, in a few words."""

    backend: str
    device: torch.device
    why: str


def place(local_rank: int, local_world_size: int, backend: str = "auto") -> Placement:
    """Choose backend and device for the rank `local_rank` of `local_world_size` on this machine.

    backend: "auto", "gloo" or "nccl". nccl refuses two ranks on one GPU, so "auto" takes it only
    with a GPU for every rank. Raises ValueError where "nccl" cannot work.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    need = f"{local_world_size} rank{'s' * (local_world_size > 1)}"
    have = f"{gpus or 'no'} GPU{'s' * (gpus != 1)} here"
    if backend not in ("auto", "gloo", "nccl"):
        raise ValueError(f"backend {backend!r} is unknown; use auto, gloo or nccl")
    if backend == "nccl" and gpus < local_world_size:
        raise ValueError(f"nccl needs one GPU per rank: {need}, {have}; use --backend gloo")
    if backend == "gloo":
        return Placement("gloo", torch.device("cpu"), "as asked")
    if gpus >= local_world_size:
        return Placement("nccl", torch.device("cuda", local_rank), f"{have}, one per rank")
    why = have if gpus == 0 else f"{have}, and nccl needs one per rank"
    return Placement("gloo", torch.device("cpu"), why)


def init(backend: str = "auto", timeout: float = 60.0) -> torch.device:
    """Join the process group that torchrun described in the environment; give this rank's device.

    timeout: seconds that a collective may wait for the other ranks. Source of the variables:
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    local_rank, local_world_size = (
        int(os.environ.get(name, default))
        for name, default in (("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"))
    )
    placement = place(local_rank, local_world_size, backend)
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    dist.init_process_group(placement.backend, timeout=datetime.timedelta(seconds=timeout))
    return placement.device


def group_device(group: dist.ProcessGroup | None = None) -> torch.device:
    """Where the backend of `group` takes tensors from: this rank's GPU with nccl, else the CPU."""
    nccl = dist.get_backend(group) == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
