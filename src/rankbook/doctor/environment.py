"""Variables that surprise, limits of the system, and what Slurm says against what torchrun says."""

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from rankbook.doctor.finding import (
    Finding,
    Options,
    local_ranks,
    nodes,
    number,
    ok,
    skipped,
    warning,
)

FILES = 4096  # open files; sockets, workers and libraries of a rank want several hundred
SURPRISES = {  # a variable, and what it does without a word
    "NCCL_P2P_DISABLE": "GPUs of one machine then exchange through host memory, which is slow",
    "NCCL_SHM_DISABLE": "ranks of one machine then exchange through the network, which is slow",
    "NCCL_IB_DISABLE": "NCCL then leaves InfiniBand alone and takes TCP, which is slow",
    "CUDA_LAUNCH_BLOCKING": "the CPU then waits for every kernel",
    "NCCL_ASYNC_ERROR_HANDLING": "torch reads TORCH_NCCL_ASYNC_ERROR_HANDLING now",
    "NCCL_BLOCKING_WAIT": "torch reads TORCH_NCCL_BLOCKING_WAIT now",
}
STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # 1: the agents' store does not serve the ranks
LEFT_OVER = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK")


def findings(options: Options) -> Iterator[Finding]:
    """What variables and limits will do to a job that is started from here."""
    environment = os.environ
    yield from surprising(environment)
    yield left_over(environment)
    yield shared_store(environment)
    allowed = hasattr(os, "sched_getaffinity")  # Linux: the cores that this process may use
    cores = len(os.sched_getaffinity(0)) if allowed else os.cpu_count() or 1
    ranks = local_ranks(options, number(environment, "SLURM_GPUS_ON_NODE"))
    yield threads(environment.get("OMP_NUM_THREADS"), cores, ranks)
    yield open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    infiniband = Path("/sys/class/infiniband")
    adapters = sorted(p.name for p in infiniband.iterdir()) if infiniband.is_dir() else []
    yield locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], adapters)
    yield slurm(environment, cores)


def surprising(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that are set and slow a job down, or do nothing any more."""
    for name, effect in SURPRISES.items():
        value = environment.get(name, "0")
        if value.lower() not in ("", "0", "false"):
            yield warning("variable", f"{name}={value}: {effect}; unset it.", {name: value})
    if environment.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        says = "TORCH_DISTRIBUTED_DEBUG=DETAIL: every collective is checked first; unset it."
        yield warning("variable", says, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})


def left_over(environment: Mapping[str, str]) -> Finding:
    """Variables that torchrun sets for its workers, where there is no torchrun."""
    value = {name: environment[name] for name in LEFT_OVER if name in environment}
    if not value or "TORCHELASTIC_RUN_ID" in environment:
        return ok("rank variables", "No variable of an earlier launch is left over.")
    names = ", ".join(value)
    says = f"{names} set outside of torchrun: a program that is started without it believes them"
    return warning("rank variables", f"{says}; unset {names}.", value)


def shared_store(environment: Mapping[str, str]) -> Finding:
    """Does torchrun, started from here, keep its store to itself? Only then can ranks start again.

    As with torch 2.13: restarted ranks read the addresses of the dead ones, and a node that joins
    looks for a key that nobody writes. Ranks cannot set it: their agent reads it before.
    """
    value = environment.get(STORE)
    if value == "1":
        return ok("restarts", "torchrun can start ranks again, and let nodes join.", value)
    says = f"{STORE} is not 1: ranks that torchrun 2.13 starts again (--max-restarts) may look for "
    return warning("restarts", f"{says}dead ones, and no node can join; export {STORE}=1.", value)


def threads(set_to: str | None, cores: int, ranks: int) -> Finding:
    """Threads of each rank. set_to: OMP_NUM_THREADS."""
    value = {"OMP_NUM_THREADS": set_to, "cores": cores}
    here = f"{cores} core{'s' * (cores != 1)}"
    if set_to is None:
        fair = max(1, cores // ranks)
        if fair == 1:
            return ok("threads", f"{here}: torchrun gives each rank one thread.", value)
        says = f"OMP_NUM_THREADS is not set: torchrun gives each of {ranks} ranks 1 of {here}; "
        return warning("threads", f"{says}export OMP_NUM_THREADS={fair}.", value)
    if set_to.isdecimal() and int(set_to) * ranks > cores:
        says = f"OMP_NUM_THREADS={set_to} for each of {ranks} ranks, but {here}: threads then wait "
        return warning("threads", f"{says}for each other; use fewer.", value)
    return ok("threads", f"OMP_NUM_THREADS={set_to}, {here}.", value)


def open_files(limit: int) -> Finding:
    """limit: the soft one, of this process and all that it starts."""
    if limit == resource.RLIM_INFINITY or limit >= FILES:
        return ok("open files", "Enough files may be open at once.", limit)
    says = f"Only {limit} files may be open at once (loader workers end with 'Too many open files')"
    return warning("open files", f"{says}: ulimit -n {FILES}.", limit)


def locked_memory(limit: int, adapters: list[str]) -> Finding:
    """limit: bytes. adapters: those of InfiniBand, which read and write locked memory only."""
    value = None if limit == resource.RLIM_INFINITY else limit
    if value is None or not adapters:
        return ok("locked memory", "Memory can be locked as far as this machine needs it.", value)
    says = f"Only {limit} bytes of memory may be locked, but {adapters[0]} needs more (NCCL: 'Call "
    return warning("locked memory", f"{says}to ibv_reg_mr failed'): ulimit -l unlimited.", value)


def slurm(environment: Mapping[str, str], cores: int) -> Finding:
    """Does what Slurm allotted suit one torchrun a node? cores: those this process may use."""
    job = environment.get("SLURM_JOB_ID")
    if job is None:
        return skipped("slurm", "Slurm: this is no job of it.")
    many, tasks = nodes(environment), number(environment, "SLURM_STEP_NUM_TASKS")
    wanted = number(environment, "SLURM_CPUS_PER_TASK")
    value = {"job": job, "nodes": many, "tasks": tasks, "cores": cores}
    steps = number(environment, "SLURM_STEP_NUM_NODES")
    if tasks is not None and steps is not None and tasks != steps:
        says = f"srun starts {tasks} tasks on {steps} nodes, but one torchrun a node is enough: "
        return warning("slurm", f"{says}--ntasks-per-node=1.", value)
    if wanted is not None and cores < wanted:
        says = f"The job has {wanted} cores a task, this step {cores}: srun does not take over "
        return warning("slurm", f"{says}--cpus-per-task; give it to srun, too.", value)
    here = environment.get("SLURMD_NODENAME", "?")
    return ok("slurm", f"Slurm: job {job}, node {here}, 1 of {many}.", value)
