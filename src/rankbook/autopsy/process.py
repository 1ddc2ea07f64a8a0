"""What a process can say of itself without loading torch: its rank, stacks, calls and groups."""

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankbook.autopsy import flight, stacks


def place() -> dict[str, Any] | None:
    """Rank, world size, node and restart; None where this process is no rank."""
    known = os.environ
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        rank, size = dist.get_rank(), dist.get_world_size()
    elif known.get("RANK") and known.get("WORLD_SIZE"):
        rank, size = int(known["RANK"]), int(known["WORLD_SIZE"])
    else:
        return None
    return {"rank": rank, "world_size": size, "node": int(known.get("GROUP_RANK", "0")),
            "local_rank": int(known.get("LOCAL_RANK", rank)),
            "restart": int(known.get("TORCHELASTIC_RESTART_COUNT", "0"))}  # fmt: skip


def is_loader() -> bool:
    """Whether this is a DataLoader's worker, which has its rank from the environment only."""
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


def threads() -> list[dict[str, Any]]:
    """The stack of each thread but the recorder's, the main one's first."""
    main, me = threading.main_thread().ident, threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    return [
        {"name": names.get(ident, "?"), "frames": _rows(frame)}
        for ident, frame in frames
        if ident == main or ident != me
    ]


def _rows(frame: Any) -> list[list]:
    return [[line.file, line.line, line.name, line.text, line.own] for line in stacks.stack(frame)]


def peer() -> int | None:
    """The rank that the main thread's send or recv is for."""
    return stacks.peer(sys._current_frames().get(threading.main_thread().ident or 0))


def held_shortly() -> list[flight.Entry]:
    """The last collectives, each with the lines that tell."""
    if "torch.distributed" not in sys.modules:
        return []
    return [_short(entry) for entry in flight.recent_collectives()]


def _short(entry: flight.Entry) -> flight.Entry:
    """With the lines that tell: the reader's own, and whether it is in backward."""
    telling = (f for f in entry.frames if f.name == "backward" or stacks.is_own(f.file))
    return replace(entry, frames=tuple(telling)[:6])


def groups() -> dict[str, list[int]]:
    """The ranks of each process group, by the name that the flight recorder has."""
    made = sys.modules.get("torch.distributed.distributed_c10d")
    if made is None:
        return {}
    world = made._world
    return {
        world.pg_names[g]: sorted(ranks)
        for g, ranks in world.pg_group_ranks.items()
        if g in world.pg_names
    }


def groups_made() -> int:
    """How many groups this rank has made, or taken part in making: what names the next one."""
    made = sys.modules.get("torch.distributed.distributed_c10d")
    return made._world.group_count if made is not None else 0


def recorder_is_on() -> bool:
    """Whether torch's flight recorder is on."""
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    return next((os.environ[name] for name in names if name in os.environ), "1") != "0"


def born(pid: int) -> str:
    """When a process began, in the system's ticks: a number that comes back is another one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def machine() -> str:
    """Where the numbers of processes are the same ones: a boot, and a namespace of it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""
