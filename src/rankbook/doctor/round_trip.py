"""An all_reduce between ranks of this machine, for each backend: does it work, and how fast?"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rankbook.doctor.finding import (
    Finding,
    Options,
    local_ranks,
    ok,
    problem,
    size,
    skipped,
    warning,
)
from rankbook.doctor.network import VARIABLES, chosen

SLOW = {"gloo": 50e6, "nccl": 4e9}  # bytes/s; PCIe 3.0 alone carries some 12e9
STAGES = ("started", "joined", "done")
AFTER = {  # what became of a rank that failed or had to be killed, by the last thing that it did
    "": ("ended before it had loaded torch", "had not even loaded torch"),
    "started": ("ended before the group was made", "had not joined the group"),
    "joined": ("ended in the all_reduce", "hung in the all_reduce"),
    "done": ("ended after its work", "hung after its work"),
}
REMEDIES = {
    "gloo": "see the interface that gloo takes (GLOO_SOCKET_IFNAME)",
    "nccl": "see NCCL_DEBUG=INFO; if NCCL_P2P_DISABLE=1 cures it, GPUs cannot copy directly",
}

Command = Callable[[str, int, int, Path, float], list[str]]


class RankProbe(NamedTuple):
    """A rank that ended: its status (None: it had to be killed), the stage, its last words."""

    rank: int
    status: int | None
    stage: str
    said: str


def findings(options: Options) -> Iterator[Finding]:
    """A round trip over gloo, and over NCCL where there are GPUs."""
    import torch
    import torch.distributed as dist

    gpus = torch.cuda.device_count()
    ranks = local_ranks(options, gpus)
    variables = chosen(os.environ, options.interface)
    end = time.monotonic() + options.seconds - 2  # what remains is for tidying up
    share = options.seconds / 2 if gpus else options.seconds - 2
    yield round_trip("gloo", ranks, share, variables)
    if not gpus or not dist.is_nccl_available():
        yield skipped("nccl", "NCCL: it needs a GPU, and a torch that has it.")
        return
    if ranks > gpus and options.ranks:
        says = f"NCCL: {ranks} ranks were asked for, there are {gpus} GPUs; tried with {gpus}."
        yield skipped("nccl", says)
    yield round_trip("nccl", min(ranks, gpus), end - time.monotonic(), variables)


def our_rank(backend: str, rank: int, ranks: int, folder: Path, seconds: float) -> list[str]:
    """The command that starts a rank."""
    words = (backend, rank, ranks, folder, seconds, os.getpid())
    return [sys.executable, "-m", "rankbook.doctor.rank", *map(str, words)]


def round_trip(
    backend: str,
    ranks: int,
    seconds: float,
    variables: dict[str, str],
    command: Command = our_rank,
) -> Finding:
    """Start `ranks` ranks of `command`; they and their folder are gone when this returns.

    seconds: for all of it. variables: those that name an interface; else it is the loopback, and
    no port is open to others.
    """
    loopback = dict.fromkeys(VARIABLES, "lo0" if sys.platform == "darwin" else "lo")
    with tempfile.TemporaryDirectory(prefix="rankbook-doctor-") as name:
        folder = Path(name)
        started = [
            _start(
                command(backend, rank, ranks, folder, seconds), rank, folder, loopback | variables
            )
            for rank in range(ranks)
        ]
        try:
            _wait(started, time.monotonic() + seconds)
        finally:
            late = _kill(started)
        ended = [_ended(rank, p, rank in late, folder) for rank, p in enumerate(started)]
        files = [folder / f"{rank}.json" for rank in range(ranks)]
        if all(file.is_file() for file in files):
            return measured(backend, [json.loads(file.read_text()) for file in files])
    return failed(backend, ended, seconds)


def _start(words: list[str], rank: int, folder: Path, variables: dict[str, str]):
    with (folder / f"{rank}.out").open("wb") as out, (folder / f"{rank}.err").open("wb") as err:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **variables},
        )


def _wait(processes: list[subprocess.Popen], end: float) -> None:
    """Return when all have ended, or one has failed and the others had a second, or at `end`."""
    while time.monotonic() < end:
        statuses = [process.poll() for process in processes]
        if all(status is not None for status in statuses):
            return
        if any(statuses):
            end = min(end, time.monotonic() + 1)
        time.sleep(0.02)


def _kill(processes: list[subprocess.Popen]) -> set[int]:
    """End those that are still there; return which they were."""
    late = {rank for rank, process in enumerate(processes) if process.poll() is None}
    for rank in late:
        processes[rank].kill()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may hold it for good
            process.wait(5)
    return late


def _ended(rank: int, process: subprocess.Popen, late: bool, folder: Path) -> RankProbe:
    reached = (folder / f"{rank}.out").read_text(errors="replace").split()
    stage = next((stage for stage in reversed(STAGES) if stage in reached), "")
    lines = (folder / f"{rank}.err").read_text(errors="replace").strip().splitlines()
    return RankProbe(rank, None if late else process.returncode, stage, lines[-1] if lines else "")


def measured(backend: str, seen: list[dict]) -> Finding:
    """seen: what each rank wrote. The slowest rank counts: a step is not done before it."""
    ranks, count = len(seen), seen[0]["bytes"]
    seconds = max(one["seconds"] for one in seen)
    latency = max(one["latency"] for one in seen)
    name = {"gloo": "gloo", "nccl": "NCCL"}[backend]
    value = {"ranks": ranks, "bytes": count, "seconds": seconds, "latency": latency}
    if ranks == 1:
        return ok(backend, f"{name} works with 1 rank: there is no other to measure with.", value)
    speed = value["algorithm_bandwidth"] = count / seconds
    says = f"{name}, {ranks} local ranks: an all_reduce of {count >> 20} MiB at {size(speed)}/s "
    says += f"(bytes by seconds, median of 5), of 4 bytes in {latency * 1e6:.0f} us"
    if speed < SLOW[backend]:
        says += f"; that is slow: {REMEDIES[backend]}, and whether others use this machine."
        return warning(backend, says, value)
    return ok(backend, f"{says}.", value)


def failed(backend: str, ended: list[RankProbe], seconds: float) -> Finding:
    """ended: how each rank ended. Named is one that failed by itself, or else the least far one."""
    order = ("", *STAGES)
    first = min(ended, key=lambda rank: (not rank.status, order.index(rank.stage)))
    alone, waiting = AFTER[first.stage]
    how = f"{alone} with status {first.status}" if first.status else waiting
    after = "" if first.status else f" after {seconds:.0f} s"
    said = f" ({first.said[:200]})" if first.said else ""
    says = f"{backend}: rank {first.rank} of {len(ended)} {how}{after}{said}: {REMEDIES[backend]}."
    return problem(backend, says, [rank._asdict() for rank in ended])
