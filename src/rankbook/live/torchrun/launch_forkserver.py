"""The fork server of launches, from the notebook's side: start it, ask it for launches, end it.

The process itself is `forkserver_main`. Live ranks have another one, the standard library's
(`rankbook.live.ranks.rank_forkserver`), which starts no programs.
"""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from rankbook.live.torchrun import forkserver_main
from rankbook.live.torchrun.process import ForkedAgent, Starter

LOAD_SECONDS = 120.0
# Read when libraries are loaded: a fork server that was started with others is of no use.
READ_AT_START = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH", "PYTORCH_", "PYTHON",
                 "LD_", "CUDA_")  # fmt: skip
# Set by libraries (torch where an optimizer is made, lightning when it is loaded), and read where
# something is compiled, or GPUs are looked for.
READ_LATER = {"TORCHINDUCTOR_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK"}


class WarmStartFailed(Exception):
    """The fork server does not do its work; the launch has to start cold."""


def gpus_visible() -> bool:
    """Whether programs started here would see a GPU. Does not load torch, nor touch a device."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if os.environ.get(name, "all").strip() in ("", "-1"):
            return False
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


class LaunchForkServer:
    """The notebook's fork server of launches. It starts with the first launch that asks for it."""

    def __init__(self, starter: Starter):
        self._starter = starter
        self._process: subprocess.Popen | None = None
        self._control: socket.socket | None = None
        self._settings: dict[str, str] = {}
        self._agents: list[ForkedAgent] = []
        self._one_at_a_time = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Its process id, if it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process and running else None

    def launch(self, directory: Path, environment: dict[str, str]) -> ForkedAgent:
        """Start the launch that `directory` describes; raises WarmStartFailed."""
        with self._one_at_a_time:
            return self._launch(directory, environment)

    def _launch(self, directory: Path, environment: dict[str, str]) -> ForkedAgent:
        control = self._ensure(environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(control, [str(directory).encode()], [theirs.fileno()])
            except OSError as error:
                self.stop()
                raise WarmStartFailed(str(error)) from error
        agent = ForkedAgent(ours)
        self._agents = [other for other in self._agents if other.poll() is None] + [agent]
        return agent

    def give_up(self) -> None:
        """A launch did not get going: the next one shall not depend on this fork server."""
        if not self._in_use:
            self.stop()

    @property
    def _in_use(self) -> bool:
        return any(not agent.destroyed and agent.poll() is None for agent in self._agents)

    def stop(self) -> None:
        """End the fork server, and every launch that came from it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

    def _ensure(self, environment: dict[str, str]) -> socket.socket:
        """The line to a server with these settings; starts it if there is none."""
        settings = {
            name: value
            for name, value in environment.items()
            if name.startswith(READ_AT_START) and name not in READ_LATER
        }
        if self._control and self.pid is not None and settings == self._settings:
            return self._control
        if self.pid is not None and self._in_use:
            raise WarmStartFailed("other launches need the fork server as it is")
        self.stop()
        self._settings = settings
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = control
        with theirs:
            command = [sys.executable, "-u", forkserver_main.__file__, theirs.fileno(), os.getpid()]
            self._process = self._starter.start(
                [str(word) for word in command],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # a recorder would be a thread of it; every worker starts its own
                env={name: v for name, v in environment.items() if name != "RANKBOOK_AUTOPSY"},
                pass_fds=[theirs.fileno()],
            )
        control.settimeout(LOAD_SECONDS)
        try:
            answer = control.recv(16)
        except OSError:  # too late, or it broke down
            answer = b""
        if answer != b"ready":
            self.stop()
            raise WarmStartFailed("the fork server did not load torch")
        return control
