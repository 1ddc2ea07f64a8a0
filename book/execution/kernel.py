"""A notebook's kernel that begins as a spare, and so do its two fork servers."""

import multiprocessing.util
import os
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager

from execution.spare import Spare
from rankbook.live.torchrun import forkserver_main
from rankbook.live.torchrun.launch_forkserver import READ_AT_START, READ_LATER
from rankbook.live.torchrun.process import Starter

LOADED_WITH = dict(os.environ)  # what libraries read when they were loaded
# What several pages need and takes longest. Not deepspeed, which says something when it is loaded.
MODULES = (
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "torch._inductor.compile_fx",
    "torch.distributed.checkpoint",
    "torch.distributed.pipelining",
    "torchdata.stateful_dataloader",
    "transformers.models.distilbert.modeling_distilbert",
    "transformers.trainer",
    "lightning",
)
SET_LATER = {"OMP_NUM_THREADS", "PYTHONIOENCODING"}  # what launches are given
HARMLESS = {"jemalloc_bg_thd"}  # threads of libraries that expect forks


class WarmKernelManager(AsyncKernelManager):
    """Starts its kernel from a spare that was forked before this process had any thread.

    The two speak through sockets in a folder (`ip`): a TCP port that is found free may be another
    kernel's by the time it is used.
    """

    spare: Spare
    transport = "ipc"

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        environment = options["env"] | {"JPY_PARENT_PID": str(os.getpid())}
        provisioner: Any = self.provisioner
        process = self.spare.start(kernel_cmd, environment, str(options["cwd"]), [])
        provisioner.process, provisioner.pid, provisioner.pgid = process, process.pid, process.pid
        provisioner.cwd = options["cwd"]
        self._reconcile_connection_info(provisioner.connection_info)


def kernel_spare() -> Spare:
    """A process that will be a kernel."""
    return Spare("kernel", before=_warm_fork_servers)


def _warm_fork_servers() -> None:
    """In the kernel, before it has any thread: have its fork servers begin as spares, too.

    Each is for the first one that starts; what starts later loads torch for itself, as it does for
    a reader.
    """
    if plotting := sys.modules.get("matplotlib"):
        # decided when it was loaded, before anybody knew that this would be a notebook
        backend = "module://matplotlib_inline.backend_inline"
        plotting.rcParams["backend"] = os.environ.setdefault("MPLBACKEND", backend)
    ranks, launches = [Spare("rank server")], [Spare("launch server", before=_set_when_loaded)]
    spawn, start = multiprocessing.util.spawnv_passfds, Starter.start

    def spawn_warm(path, arguments, files):
        if ranks and "multiprocessing.forkserver" in str(arguments[-1]):
            command, environment = [os.fsdecode(a) for a in arguments], dict(os.environ)
            return ranks.pop().start(command, environment, str(Path.cwd()), [*files]).pid
        return spawn(path, arguments, files)

    def start_warm(self, command: list[str], **options):
        warm = launches and forkserver_main.__file__ in command
        if warm and _settings(options["env"]) == _settings(LOADED_WITH):
            files = [*options["pass_fds"]]
            return launches.pop().start(command, options["env"], str(Path.cwd()), files)
        return start(self, command, **options)

    multiprocessing.util.spawnv_passfds, Starter.start = spawn_warm, start_warm


def _settings(environment: dict[str, str]) -> dict[str, str]:
    """The part of `environment` that libraries read when they are loaded, and only then."""
    read = (name for name in environment if name.startswith(READ_AT_START))
    return {name: environment[name] for name in read if name not in {*READ_LATER, *SET_LATER}}


def _set_when_loaded() -> None:
    """What a fresh process would have read from `SET_LATER`."""
    if (threads := os.environ.get("OMP_NUM_THREADS")) and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=os.environ.get("PYTHONIOENCODING", stream.encoding))


def load() -> None:
    """Load what kernels, ranks and launches would each load for themselves, with one thread."""
    names = ("OPENBLAS_NUM_THREADS",)
    os.environ.update(dict.fromkeys(names, "1"))
    import gc
    from importlib import import_module

    from rankbook.live.ranks.rank_forkserver import PRELOAD

    for module in (*PRELOAD, *MODULES):
        import_module(module)
    # The environment as it was, without what libraries have set: Lightning has torch ask NVML
    # whenever somebody asks for GPUs, which takes a minute of a page that simulates 64 ranks.
    os.environ.clear()
    os.environ.update(LOADED_WITH)
    forkserver_main._load()
    gc.collect()
    gc.freeze()
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    others = set(threads[1:]) - HARMLESS
    assert not others, f"a fork of a process with threads may hang: {others}"
