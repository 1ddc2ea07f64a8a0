"""What benchmarks of several ranks share: starting them, turns, parts that are kept, and rows."""

import os
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.record import load_average
from rankbook.core.placement import place
from rankbook.core.timing import in_turns, time_once

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Here(NamedTuple):
    """This rank, how many there are, and where its tensors lie."""

    rank: int
    ranks: int
    device: torch.device


def on_ranks(
    ranks: int, work: Callable, *given: Any, backend: str = "gloo", preload: tuple[str, ...] = ()
) -> Any:
    """What ``work(here, *given)`` returns on rank 0 of so many new processes, a thread each.

    work: a function of a module, called on every rank, in a group of all; it returns numbers, text
    and tensors, in lists and dicts. backend: as `place` takes it; "auto" is nccl where there is a
    GPU a rank. preload: what a fork server imports once; without it each process begins anew.
    """
    if preload:
        mp.set_forkserver_preload(list(preload))
    how = "forkserver" if preload else "spawn"
    with tempfile.TemporaryDirectory() as folder:
        spec = (folder, ranks, backend, work, given)
        mp.start_processes(_on_rank, spec, nprocs=ranks, start_method=how)
        return torch.load(f"{folder}/found", weights_only=True)


def _on_rank(
    rank: int, folder: str, ranks: int, backend: str, work: Callable, given: tuple
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    placement = place(rank, ranks, backend)
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": ranks}
    dist.init_process_group(placement.backend, **where)
    # a DDP has to go before its group, or the two may wait for each other: `work` has let it go
    found = work(Here(rank, ranks, placement.device), *given)
    if rank == 0:
        torch.save(found, f"{folder}/found")
    dist.barrier()
    dist.destroy_process_group()


def kept(path: Path, make: Callable[[], Found]) -> Found:
    """What `make` gives; from `path`, if an earlier run has kept it there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        torch.save(make(), partial)
        partial.replace(path)
    return torch.load(path, weights_only=True)


def interleaved(
    ways: Mapping[Key, Callable[[], Found]], repeats: int, warm_up: int = 0
) -> dict[Key, list[Found]]:
    """What each of `ways` gives in each of so many turns; every other turn goes backwards.

    As `rankbook.core.timing.time_interleaved`, for what takes its own time: seconds, or several of
    them. The turns of the warm-up come before and are not kept.
    """
    found: dict[Key, list[Found]] = {name: [] for name in ways}
    for turn, name in in_turns(ways, repeats, warm_up):
        one = ways[name]()
        if turn >= 0:
            found[name].append(one)
    return found


def most(numbers: Mapping[Key, float], device: torch.device | str = "cpu", group=None) -> dict:
    """Of each number that of the rank of `group` which has most: of seconds, the slowest rank's."""
    dtype = torch.int64 if all(isinstance(n, int) for n in numbers.values()) else torch.float64
    values = torch.tensor(list(numbers.values()), dtype=dtype, device=device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX, group=group)
    return dict(zip(numbers, values.tolist(), strict=True))


def slowest(work: Callable[[], object], device: torch.device | str = "cpu", group=None) -> float:
    """Seconds that `work` takes the slowest rank of `group`, from when all are ready."""
    device = torch.device(device)
    dist.barrier(group)
    return most({"seconds": time_once(work, device)}, device, group)["seconds"]


def about(ranks: int, backend: str = "gloo") -> dict[str, Any]:
    """What a record says of its ranks, and of what else the machine did: call it before them."""
    placement = place(0, ranks, backend)
    kind = {"cpu": "CPU", "cuda": "GPU"}[placement.device.type]
    return {
        "kind": kind, "ranks": ranks, "backend": placement.backend, "load": load_average()
    }  # fmt: skip


def show(*rows: dict) -> None:
    """A line for each row."""
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
