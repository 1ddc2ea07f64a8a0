"""The notebook's side of the warm process: start it, ask it for launches, end it."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from rankbook.live.torchrun import warm_zygote
from rankbook.live.torchrun.process import ForkedAgent, Starter

LOAD_SECONDS = 120.0
# Read when libraries are loaded: a warm process that was started with others is of no use.
READ_AT_START = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH", "PYTORCH_", "PYTHON",
                 "LD_", "CUDA_")  # fmt: skip
# torch sets it by itself, where an optimizer is made; it is read when something is compiled
READ_LATER = {"TORCHINDUCTOR_CACHE_DIR"}


class WarmStartFailed(Exception):
    """The warm process does not do its work; the launch has to start cold."""


def gpus_visible() -> bool:
    """Whether programs started here would see a GPU. Does not load torch, nor touch a device."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if os.environ.get(name, "all").strip() in ("", "-1"):
            return False
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


class Warm:
    """The warm process of this notebook. It starts with the first launch that asks for it."""

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
        return self._process.pid if running else None

    def launch(self, directory: Path, environment: dict[str, str]) -> ForkedAgent:
        """Start the launch that `directory` describes; raises WarmStartFailed."""
        with self._one_at_a_time:
            return self._launch(directory, environment)

    def _launch(self, directory: Path, environment: dict[str, str]) -> ForkedAgent:
        self._ensure(environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._control, [str(directory).encode()], [theirs.fileno()])
            except OSError as error:
                self.stop()
                raise WarmStartFailed(str(error)) from error
        agent = ForkedAgent(ours)
        self._agents = [other for other in self._agents if other.poll() is None] + [agent]
        return agent

    def give_up(self) -> None:
        """A launch did not get going: the next one shall not depend on this warm process."""
        if not self._in_use:
            self.stop()

    @property
    def _in_use(self) -> bool:
        return any(not agent.destroyed and agent.poll() is None for agent in self._agents)

    def stop(self) -> None:
        """End the warm process, and every launch that came from it."""
        if self._process is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

    def _ensure(self, environment: dict[str, str]) -> None:
        settings = {
            name: value
            for name, value in environment.items()
            if name.startswith(READ_AT_START) and name not in READ_LATER
        }
        if self.pid is not None and settings == self._settings:
            return
        if self.pid is not None and self._in_use:
            raise WarmStartFailed("other launches need the warm process as it is")
        self.stop()
        self._settings = settings
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-u", warm_zygote.__file__, theirs.fileno(), os.getpid()]
            self._process = self._starter.start(
                [str(word) for word in command],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=[theirs.fileno()],
            )
        self._control.settimeout(LOAD_SECONDS)
        try:
            answer = self._control.recv(16)
        except OSError:  # too late, or it broke down
            answer = b""
        if answer != b"ready":
            self.stop()
            raise WarmStartFailed("the warm process did not load torch")
