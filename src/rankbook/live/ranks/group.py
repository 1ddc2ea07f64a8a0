"""A rank's process group: joining it, and getting a rank out of a collective that hangs."""

import datetime
import os
import socket
import time
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from rankbook.core.placement import place
from rankbook.live.ranks import anysource

_meeting: dict[str, dist.Store] = {}  # the store in which the ranks met, by its file
_made: dict[str, float] = {}  # "at": when


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
    _meeting.clear()
    store, timeout = dist.FileStore(store_file, spec.world_size), seconds(spec.timeout)
    store.set_timeout(timeout)
    _meeting[store_file] = store
    dist.init_process_group(
        placement.backend,
        store=dist.PrefixStore("default_pg", store),  # as torch does: cells have the other keys
        rank=spec.rank,
        world_size=spec.world_size,
        timeout=timeout,
    )
    anysource.install()
    _made["at"] = time.time()
    return placement


def made_at() -> float:
    """When the default process group was made, in seconds since the epoch."""
    return _made.get("at", 0.0)


def seconds(number: float) -> datetime.timedelta:
    """As torch takes them."""
    return datetime.timedelta(seconds=number)


def cut() -> int:
    """Break this process's connections to other ranks; a collective that hangs then raises.

    gloo has no abort that frees a waiting thread, but a closed connection does. gloo connects
    ranks of one machine over loopback, so only such connections are cut. Returns their number.
    A wait in the store (a key that never comes, new_group) looks into its file again and again: it
    gives up when that takes too long, or when the file cannot be opened.
    """
    cut_sockets = 0
    for connection in psutil.Process().net_connections("tcp"):
        if connection.raddr and connection.raddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            cut_sockets += _shut_down(connection.fd)
    if dist.is_initialized() and dist.get_backend() == "nccl":
        dist.distributed_c10d._abort_process_group()
    for file, store in _meeting.items():
        store.set_timeout(seconds(0.001))
        _make_unopenable(Path(file))
    anysource.end_waits()
    return cut_sockets


def _make_unopenable(file: Path) -> None:
    """Put a link to itself in place of `file`: a missing one would be waited for, or made anew."""
    link = file.with_name(f"{file.name}.{os.getpid()}")
    link.symlink_to(file.name)
    link.replace(file)


def _shut_down(descriptor: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed meanwhile
        return False
    return True
