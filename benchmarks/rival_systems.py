"""The systems that run a cell on every rank: how each is installed, started and given a cell."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.rival_faults import FIRST, GROUP, NAMES, TIMEOUT

KERNEL = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
VERSION = 1  # of what is done in an environment
PORT = """import socket
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
"""


@dataclass(frozen=True)
class System:
    """One way to run a cell on two ranks. requires: its package ("": this project itself).

    start: cells that make the ranks. wrap: a cell of the notebook from the ranks' code. kernel:
    how its Python is called as a kernel. env: further environment variables of the kernel.
    """

    name: str
    requires: str
    start: tuple[str, ...]
    wrap: Callable[[str], str]
    kernel: tuple[str, ...] = KERNEL
    env: dict[str, str] = field(default_factory=dict)
    message_interrupt: bool = False
    preload: str = ""  # what its Pythons import as they start

    @property
    def package(self) -> str:
        """The name of its package."""
        return self.requires.partition("==")[0]


def _magic(line: str) -> Callable[[str], str]:
    return lambda code: f"{line}\n{code}"


def _launched(code: str) -> str:
    """A cell of accelerate's: a function, a new group each time."""
    body = textwrap.indent(f"{GROUP}\nrank = dist.get_rank(); t = torch.ones(2)\n{code}", "    ")
    return f"def cell():\n{body}\nnotebook_launcher(cell, (), 2, use_port=str(port()))"


PX = (
    PORT
    + """import ipyparallel
clients = ipyparallel.Cluster(n={n}, log_level=40).start_and_connect_sync()
def tell(rank, port):
    import os
    os.environ.update(RANK=str(rank), WORLD_SIZE="{n}", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
free = port()
for rank, i in enumerate(sorted(clients.ids)): clients[i].apply_sync(tell, rank, free)"""
)
MONARCH = f"""{PORT}
{NAMES}
from monarch.actor import Actor, current_rank, endpoint, this_host
class Rank(Actor):
    @endpoint
    def init(self, port):
        import os
        os.environ.update(RANK=str(current_rank().rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port))
        self.names = {{}}
    @endpoint
    def run(self, code):
        exec(compile(code, "<cell>", "exec"), self.names)
        return self.names.pop("out", None)
procs = this_host().spawn_procs({{"gpus": 2}})
ranks = procs.spawn("ranks", Rank)
print(ranks.init.call(port()).get(timeout=60))"""


def ranks(n: int = 2, options: str = "") -> System:
    """This project's live ranks."""
    start = ("%load_ext rankbook", f"%ranks start -n {n} {options}")
    return System(f"%%ranks {options}".strip(), "", start, _magic("%%ranks"))


def ipyparallel(n: int = 2) -> System:
    """ipyparallel's engines as ranks."""
    start = (PX.replace("{n}", str(n)), f"%%px\n{GROUP}")
    return System("ipyparallel", "ipyparallel==9.2.0", start, _magic("%%px"))


SYSTEMS = (
    replace(ranks(options=f"--timeout {TIMEOUT}"), name="%%ranks"),
    System("%%torchrun", "", ("%load_ext rankbook",),
           lambda code: f"%%torchrun --nproc-per-node 2\n{GROUP}\n{FIRST}\n{code}"),
    ipyparallel(),
    # its magic returns before the ranks are there, and cells sent until then are lost
    System("nbdistributed", "nbdistributed==0.1.0",
           ("%load_ext nbdistributed", "%dist_init -n 2", "import time; time.sleep(15)",
            "%dist_mode -d"), _magic("%%distributed")),
    System("accelerate", "accelerate==1.15.0",
           (f"{PORT}\n{NAMES}\nfrom accelerate import notebook_launcher",), _launched),
    System("jupyter-distributed", "jupyter-distributed==0.1.1", (GROUP,), str,
           ("-m", "jupyter_distributed.kernel", "-f", "{connection_file}"),
           {"JUPYTER_DISTRIBUTED_BASE_KERNEL": "python3", "JUPYTER_DISTRIBUTED_WORLD_SIZE": "2"},
           message_interrupt=True),
    # torch is loaded first: two threads of a rank import it at once, and one gets half of it
    System("monarch", "torchmonarch==0.7.0",
           (MONARCH, f"x = ranks.run.call({GROUP!r}).get(timeout=60)"),
           lambda code: f"print(ranks.run.call({code!r}).get())", preload="torch"),
)  # fmt: skip
PERSISTENT_FIRST = {s.name: FIRST for s in SYSTEMS if s.name not in ("%%torchrun", "accelerate")}


def install(system: System, folder: Path) -> str:
    """The Python that has `system`: an environment of its own in `folder`, beside this one's torch.

    Raises RuntimeError with pip's last words if it cannot be installed.
    """
    if not system.requires:
        return sys.executable
    place = folder / system.package
    python = place / "bin" / "python"
    if not (place / f"ready-{VERSION}").exists():
        venv.create(place, with_pip=True, clear=True, symlinks=True)
        site = sysconfig.get_path("purelib", vars={"base": str(place)})
        Path(site, "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
        if system.preload:  # read after the other, in the order of names
            Path(site, "then.pth").write_text(f"import {system.preload}\n", "utf-8")
        pip = [str(python), "-m", "pip", "install", "-q", system.requires]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        (place / f"ready-{VERSION}").touch()
    return str(python)


def write_kernel(system: System, python: str, folder: Path) -> Path:
    """Make `folder` hold a kernel "python3" of that Python; return it."""
    spec = {"argv": [python, *system.kernel], "display_name": system.name, "language": "python"}
    if system.message_interrupt:  # as its server extension sets it
        spec["interrupt_mode"] = "message"
    (folder / "python3").mkdir(parents=True)
    (folder / "python3" / "kernel.json").write_text(json.dumps(spec), "utf-8")
    return folder


def environment(python: str, folder: Path) -> dict[str, str]:
    """What every kernel gets: its own Python first, loopback only, a profile of its own.

    There is no pkill for it: nbdistributed's way to end its ranks would also end others'.
    """
    harmless = folder / "harmless"
    harmless.mkdir(parents=True, exist_ok=True)
    for name in ("pkill", "killall"):
        (harmless / name).write_text("#!/bin/sh\nexit 1\n", "utf-8")
        (harmless / name).chmod(0o755)
    path = os.pathsep.join([str(harmless), str(Path(python).parent), os.environ["PATH"]])
    return {
        "PATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "IPYTHONDIR": str(folder / "ipython"),
    }  # fmt: skip
