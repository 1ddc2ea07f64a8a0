"""A rank's process group: joining it, and getting a rank out of a collective that hangs."""

import datetime
import os
import socket

import psutil
import torch
import torch.distributed as dist

from rankbook.parallel.placement import place


def names(spec) -> dict:
    """The names that every rank knows before its first cell."""
    return {
        "torch": torch,
        "dist": dist,
        "rank": spec.rank,
        "local_rank": spec.rank,
        "world_size": spec.world_size,
    }


def join(store_file: str, spec):
    """Make the default process group, or make it again; return the rank's `Placement`.

    The ranks meet in a file, which needs no open port.
    """
    placement = place(spec.rank, spec.world_size, spec.backend)
    if dist.is_initialized():
        dist.destroy_process_group()
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    dist.init_process_group(
        placement.backend,
        init_method=f"file://{store_file}",
        rank=spec.rank,
        world_size=spec.world_size,
        timeout=datetime.timedelta(seconds=spec.timeout),
    )
    return placement


def cut() -> int:
    """Break this process's connections to other ranks; a collective that hangs then raises.

    gloo has no abort that frees a waiting thread, but a closed connection does. gloo connects
    ranks of one machine over loopback, so only such connections are cut. Returns their number.
    """
    cut_sockets = 0
    for connection in psutil.Process().net_connections("tcp"):
        if connection.raddr and connection.raddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            cut_sockets += _shut_down(connection.fd)
    if dist.is_initialized() and dist.get_backend() == "nccl":
        dist.distributed_c10d._abort_process_group()
    return cut_sockets


def _shut_down(descriptor: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed meanwhile
        return False
    return True
