"""The first of two nodes dies with all that is on it: what the other does, for three stores.

    python -m benchmarks.lost_store

The real torchrun on this machine, the elastic program with its small model. etcd has to be there
(`rankbook.testbed.etcd`). Nothing is timed. Writes book/results/lost_store-cpu-2.json.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.record import write
from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.programs.rendezvous_store import serve
from rankbook.testbed import etcd
from rankbook.training.elastic import read_events

WHAT = (
    "Two torchrun agents with one worker each (--nnodes 1:2); the agent that began is killed with "
    "its worker while both train. survivor: what became of the other node, and in which world it "
    "did its last step"
)
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5,join_timeout=60"
PROGRAM = "from rankbook.programs import elastic\nelastic.main()\n"
STEPS, SECONDS = 60, 120.0


@contextmanager
def by_default() -> Iterator[list[str]]:
    """The agent that begins hosts the store."""
    yield ["--rdzv-conf", CONF]


@contextmanager
def that_stays() -> Iterator[list[str]]:
    """torch's own store, in this process."""
    store = serve(port=0)
    yield ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{store.host}:{store.port}",
           "--rdzv-id", "job", "--rdzv-conf", f"{CONF},is_host=0"]  # fmt: skip


@contextmanager
def in_etcd() -> Iterator[list[str]]:
    """A server that speaks etcd's second protocol."""
    with etcd.server() as endpoint:
        yield ["--rdzv-backend", "etcd-v2", "--rdzv-endpoint", endpoint, "--rdzv-id", "job",
               "--rdzv-conf", CONF]  # fmt: skip


STORES = {
    "c10d, hosted by the first agent (the default)": by_default,
    "c10d on a host that stays, is_host=0": that_stays,
    "etcd 3.4, etcd-v2": in_etcd,
}


def lose_the_first(rendezvous: list[str]) -> dict:
    """What becomes of the second node when the first dies."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        torchrun = Torchrun()
        stack.callback(torchrun.close)
        options = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "9", *rendezvous]
        words = ["--checkpoint", f"{folder}/kept", "--events", f"{folder}/events",
                 "--save-every", "2", "--steps", str(STEPS), "--pace", "0.1"]  # fmt: skip
        for node in ("first", "second"):
            spec = LaunchSpec(options, words, node)
            torchrun.run_node(spec, PROGRAM, print, background=True)
        until(lambda: len([s for s in steps(folder) if s["world_size"] == 2]) > 6)
        torchrun.kill("first", 9)  # its worker ends with it
        survivor = torchrun.node("second")
        until(lambda: not survivor.running)
        last = steps(folder)[-1]
        return {
            "survivor": told(survivor.code, last),
            "exit code": survivor.code,
            "world size": last["world_size"],
            "error": survivor.trouble.split(". See")[0],
        }


def told(code: int | None, last: dict) -> str:
    """The survivor's end in words."""
    if code == 0 and last["step"] == STEPS and last["world_size"] == 1:
        return "goes on alone, and ends with 0"
    return f"ends with {code} after step {last['step']} of {STEPS}"


def steps(folder: Path) -> list[dict]:
    """The steps that were done so far."""
    path = folder / "events"
    return [e for e in read_events(path) if e["event"] == "step"] if path.exists() else []


def until(happened: Callable[[], bool]) -> None:
    """Wait for it; TimeoutError if it takes too long."""
    end = time.monotonic() + SECONDS
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError("not in time")
        time.sleep(0.05)


def main() -> None:
    """Lose the first node of each job, and write what happened."""
    if why := etcd.why_not():
        sys.exit(f"lost_store: {why}")
    rows = []
    for name, rendezvous in STORES.items():
        with rendezvous() as options:
            rows.append({"store": name} | lose_the_first(options))
        print(rows[-1], flush=True)
    print(write("lost_store-cpu-2", WHAT, rows, ("torch", "python-etcd"), kind="CPU"))


if __name__ == "__main__":
    main()
