"""Memory of the machine, and shared memory, which loader workers and NCCL exchange data through."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from rankbook.doctor.finding import Finding, Options, ok, problem, size, skipped, warning

SHARED = Path("/dev/shm")
TOO_LITTLE = 64 << 20  # bytes: what a container has by default, and what jobs in it die of
PLENTY = 1 << 30  # bytes: what NCCL's guide gives a container (--shm-size=1g)
RESERVE = 1 << 30  # bytes of memory under which nothing much can be trained


def findings(options: Options) -> Iterator[Finding]:
    """Shared memory and memory that a job would have."""
    yield shared(SHARED)
    yield available(Path("/proc"), Path("/sys/fs/cgroup"))


def shared(folder: Path) -> Finding:
    """What is free in `folder`, in which shared memory is.

    Batches of loader workers lie there, and NCCL's buffers between GPUs of a machine. Source:
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    if not folder.is_dir():
        return skipped("shared memory", f"Shared memory: this system has no {folder}.")
    usage = shutil.disk_usage(folder)
    value = {"free": usage.free, "total": usage.total}
    if usage.free >= PLENTY:
        says = f"{size(usage.free)} of shared memory are free."
        return ok("shared memory", says, value)
    says = f"{size(usage.free)} of {size(usage.total)} of shared memory are free in {folder}: "
    if usage.total >= PLENTY:
        says += "remove what ended jobs left there."
    else:
        says += "loader workers fail with 'No space left on device', NCCL cannot start; "
        says += "in a container, --shm-size=1g or --ipc=host."
    return (problem if usage.free <= TOO_LITTLE else warning)("shared memory", says, value)


def available(proc: Path, cgroup: Path) -> Finding:
    """The memory that is left; a group of processes may have less than the machine.

    proc, cgroup: where the kernel shows them (/proc and /sys/fs/cgroup, its version 2).
    """
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return skipped("memory", "Memory: this system does not say in /proc how much there is.")
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    limit = group_limit(proc, cgroup)
    value = {"available": free, "limit": limit}
    says = f"{size(free)} of memory are available"
    if limit is not None and limit < free:
        says = f"{size(limit)} of memory are allowed to this job or container"
    if min(free, limit or free) < RESERVE:
        return warning("memory", f"{says}: too little to train; ask for more (--mem).", value)
    return ok("memory", f"{says}.", value)


def group_limit(proc: Path, cgroup: Path) -> int | None:
    """Bytes that this process's group may use: the least on its way up; None without a limit."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return None
    path = next((line[3:].lstrip("/") for line in lines if line.startswith("0::")), "")
    group = cgroup / path
    limits = []
    while group.is_relative_to(cgroup):
        file = group / "memory.max"
        text = file.read_text().strip() if file.is_file() else "max"
        limits += [int(text)] if text.isdecimal() else []
        group = group.parent
    return min(limits, default=None)
