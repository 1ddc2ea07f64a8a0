"""A real Slurm of a few hosts on one machine, for the length of a ``with`` block."""

import atexit
import shutil
import string
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import psutil

from rankbook.live.private import private_directory
from rankbook.testbed.hosts import Host
from rankbook.testbed.slurm import groups
from rankbook.testbed.slurm.environment import ROOT, environment
from rankbook.testbed.slurm.possible import NAMESPACES, why_not
from rankbook.testbed.slurm.script import run
from rankbook.testbed.slurm.setups import beside, changed, words

PATIENCE = 600.0  # seconds, for what takes a few on a free machine
# Nothing comes after these. All others pass, also SIGNALING; a job that was PREEMPTED waits again.
ENDS = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
HERE = Path(__file__).parent


class Cluster:
    """Hosts ``n1``, ``n2``, … and a login node, with Slurm on them.

    Each host is a network namespace with a host name, an address on ``eth0`` (10.77.0.1, …) and a
    ``slurmd``. They share the machine's file systems and its cores; of its network they see
    nothing, and it sees nothing of theirs. All of it ends when this process ends, however.

    nodes: how many hosts. cpus: what Slurm believes each to have, so that two jobs fit on one.
    setup: a name in `setups.SETUPS`, or several with commas: what this Slurm does as others do.
    folder: a folder for the jobs' logs and checkpoints; removed at the end. conf: its slurm.conf.
    Raises RuntimeError where `why_not` says why, or if Slurm does not start in time.
    """

    def __init__(self, nodes: int = 2, cpus: int = 4, setup: str = ""):
        words(setup)  # a mistake in it is said before anything is made
        if reason := why_not():
            raise RuntimeError(f"no cluster on this machine: {reason}")
        began = time.monotonic()
        self.nodes = [f"n{i}" for i in range(1, nodes + 1)]
        self._state = private_directory("cluster")
        groups.remove_what_the_killed_left()
        self.folder = self._state / "shared"
        self.folder.mkdir()
        (self._state / "slurmctld").mkdir()
        self.conf = changed(self._conf(cpus), setup)
        for name, text in {"slurm.conf": self.conf, **beside(setup, self._state)}.items():
            (self._state / name).write_text(text)
        self._environment = environment(self._state / "slurm.conf", self.folder)
        self._rack = self._start()
        atexit.register(self.stop)
        try:
            self._until_idle()
        except BaseException:
            self.stop()
            raise
        self.seconds = time.monotonic() - began

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *exception) -> None:
        self.stop()

    def login(
        self, script: str, seconds: float = PATIENCE, show: Callable = lambda text: None
    ) -> str:
        """Run `script` with bash on the login node, in the checkout; return what it said.

        It ends at the first command that fails. `show` is called with each piece of the output as
        it comes. Raises ScriptFailed, with the output, on a failure or after `seconds`.
        """
        return self._run([*self._inside, "bash", "-ec", script], seconds, show)

    def on(
        self, node: str, script: str, seconds: float = PATIENCE, show: Callable = lambda text: None
    ) -> str:
        """Run `script` with bash on the host `node`, beside Slurm; otherwise as `login`."""
        return self._run(self.host(node).command("bash", "-ec", script), seconds, show)

    def host(self, node: str) -> Host:
        """The host `node`, whose cable can be pulled. Raises ValueError if there is none."""
        if node not in self.nodes:
            raise ValueError(f"no host {node!r} in this cluster; there are {', '.join(self.nodes)}")
        slurmd = (self._state / f"{node}.pid").read_text().strip()
        enter = [*self._inside, "nsenter", "--target", slurmd, "--net", "--uts"]
        return Host(node, f"10.77.0.{self.nodes.index(node) + 1}", enter)

    def submit(self, *words: str) -> int:
        """``sbatch`` with these words; the job's id."""
        line = ["sbatch", "--parsable", *map(str, words)]
        said = self._run([*self._inside, *line], PATIENCE)
        return int(said.strip().splitlines()[-1].split(";")[0])

    def states(self, job: int) -> list[str]:
        """The job's state in Slurm's words (PENDING, RUNNING, …); of an array, each task's."""
        return [line.split("=")[1] for line in self._show(job, "JobState")]

    def wait(
        self, job: int, states: str | Iterable[str] = "COMPLETED", seconds: float = PATIENCE
    ) -> str:
        """Wait until the job (each task of an array) has one of `states`; return the last one.

        Raises TimeoutError with the job's log, also at once if the job ended in another way.
        """
        wanted = {states} if isinstance(states, str) else set(states)
        end = time.monotonic() + seconds
        while not set(now := self.states(job)) <= wanted:
            over = set(now) <= ENDS
            if over or time.monotonic() > end:
                what = f"job {job} is {' '.join(now)}, not {' or '.join(sorted(wanted))}"
                when = "" if over else f", after {seconds:g} s"
                raise TimeoutError(f"{what}{when}; its log:\n{self.log(job)}")
            time.sleep(0.2)
        return now[-1]

    def log(self, job: int) -> str:
        """What the job wrote so far; of an array, task by task."""
        files = dict.fromkeys(line.split("=")[1] for line in self._show(job, "StdOut"))
        return "".join(Path(f).read_text(errors="replace") for f in files if Path(f).exists())

    def stop(self) -> None:
        """End every process of the cluster and remove its folder. Harmless when it is stopped."""
        if self._rack.poll() is None:
            with suppress(psutil.NoSuchProcess, IndexError):
                psutil.Process(int(self._first)).kill()
        assert self._rack.stdin is not None
        self._rack.stdin.close()
        try:
            self._rack.wait(10)
        except subprocess.TimeoutExpired:
            self._rack.kill()
            self._rack.wait()
        atexit.unregister(self.stop)
        groups.remove(self._state.name)
        shutil.rmtree(self._state, ignore_errors=True)

    def _conf(self, cpus: int) -> str:
        memory = psutil.virtual_memory().total // 2**20 // len(self.nodes)
        return string.Template((HERE / "slurm.conf").read_text()).substitute(
            folder=self._state, nodes=",".join(self.nodes), cpus=cpus, memory=memory
        )

    def _start(self) -> subprocess.Popen:
        start = ["bash", str(HERE / "start_cluster.sh"), str(self._state), *self.nodes]
        with (self._state / "start_cluster.out").open("wb") as out:
            return subprocess.Popen(
                ["unshare", *NAMESPACES, "--mount-proc", "--kill-child", *start],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # the notebook's stop button is not for it
            )

    def _until_idle(self) -> None:
        end = time.monotonic() + PATIENCE
        while self._rack.poll() is None and time.monotonic() < end:
            with suppress(RuntimeError, psutil.NoSuchProcess, IndexError):
                if set(self.login("sinfo -hN -p main -o %T", 20).split()) == {"idle"}:
                    return
            time.sleep(0.1)
        raise RuntimeError("\n".join(["Slurm did not start; the last words:", *self._last_words()]))

    def _last_words(self) -> list[str]:
        daemons = ["slurmctld", *(f"slurmd-{node}" for node in self.nodes)]
        logs = [
            "start_cluster.out",
            "munge.log",
            *(f"{d}.{end}" for d in daemons for end in ("out", "log")),
        ]
        said = []
        for log in (self._state / name for name in logs):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            said += [f"{log.name}: {line}" for line in lines[-3:]]
        return said

    def _show(self, job: int, key: str) -> list[str]:
        shown = self._run([*self._inside, "scontrol", "show", "job", str(job)], 20.0)
        return [word for word in shown.split() if word.startswith(f"{key}=")]

    def _run(self, command: list[str], seconds: float, show: Callable = lambda text: None) -> str:
        return run(command, self._environment, seconds, show)

    @property
    def _inside(self) -> list[str]:
        """The words that run a command in the cluster's namespaces, in the checkout."""
        if self._rack.poll() is not None:
            raise RuntimeError("this cluster has ended; start another")
        return ["nsenter", "--target", self._first, "--mount", "--net", "--uts", "--ipc", "--pid",
                f"--wd={ROOT}"]  # fmt: skip

    @cached_property
    def _first(self) -> str:
        """The first process in the cluster's namespaces, as the machine numbers it."""
        return str(psutil.Process(self._rack.pid).children()[0].pid)
