"""An etcd server for a while: a rendezvous store that no agent of torchrun hosts.

torchrun speaks etcd's second protocol, which etcd 3.4 and 3.5 have behind ``--enable-v2`` and
later ones have no more.
"""

import importlib.util
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rankbook.core.ports import ReservedPort

START_SECONDS = 600.0  # it takes less than one on a free machine


def why_not() -> str:
    """Why this machine cannot have a server that torchrun can use; an empty string if it can."""
    if not shutil.which("etcd"):
        return "there is no etcd here (Debian and Ubuntu: the package etcd-server)"
    if importlib.util.find_spec("etcd") is None:
        return "torchrun reaches etcd through python-etcd, which is not installed"
    told = subprocess.run(["etcd", "--help"], capture_output=True, text=True, check=False)
    if "enable-v2" not in told.stdout + told.stderr:
        return "this etcd has no --enable-v2, and torchrun speaks no other protocol"
    return ""


@contextmanager
def server() -> Iterator[str]:
    """A server on 127.0.0.1, for the length of a ``with`` block; gives HOST:PORT.

    Raises RuntimeError where `why_not` says why, or if the server does not start.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    with ExitStack() as stack:
        # both ports are held while it runs: it binds beside them
        clients, peers = (stack.enter_context(ReservedPort()).number for _ in range(2))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rankbook-etcd-"))
        log = Path(folder, "log")
        with log.open("wb") as file:
            process = subprocess.Popen(
                _command(folder, clients, peers), stdout=file, stderr=subprocess.STDOUT
            )
        try:
            _until_it_answers(process, clients, log)
            yield f"127.0.0.1:{clients}"
        finally:
            process.kill()
            process.wait()


def _command(folder: str, clients: int, peers: int) -> list[str]:
    ours, theirs = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    return ["etcd", "--enable-v2", "--name", "one", "--data-dir", f"{folder}/data",
            "--listen-client-urls", ours, "--advertise-client-urls", ours,
            "--listen-peer-urls", theirs, "--initial-advertise-peer-urls", theirs,
            "--initial-cluster", f"one={theirs}"]  # fmt: skip


def _until_it_answers(process: subprocess.Popen, port: int, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with direct.open(f"http://127.0.0.1:{port}/v2/keys/", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    said = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise RuntimeError("\n".join(["etcd did not start; its last words:", *said]))
