"""Training over a slow cable: every step, compressed, LocalSGD, DiLoCo and streaming fragments.

    python -m benchmarks.slow_links

Writes book/results/slow_links-cpu-2.json. Two hosts are network namespaces with a cable that
carries so many bits per second, each packet so much later (needs root, ip, tc and /dev/net/tun). A
rank on each trains on real WikiText-2, of which the most frequent words are kept. All ways get the
same tokens in the same order, and the same inner learning rate.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.record import RESULTS, load_average, summary, write
from rankbook.comm import Link, ring
from rankbook.testbed.hosts import Host, search_path, two_hosts, why_not_slow

ROOT = Path(__file__).resolve().parents[1]
FILE = RESULTS / "slow_links-cpu-2.json"
RATE, DELAY = 50e6, 0.01  # bits per second and seconds: of the cable that all ways train over
RANKS = 2
CABLES = (
    # bits per second (None: as it is), seconds; the first one says what a message takes besides
    (None, 0.0), (100e6, 0.0), (10e6, 0.0), (4e6, 0.0), (100e6, 0.02), (10e6, 0.02), (10e6, 0.1),
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """The model, and what it is trained on: rows of all ranks, tokens of a row, words kept."""

    words: int = 1000
    d_model: int = 64
    d_hidden: int = 256
    heads: int = 4
    layers: int = 2
    rows: int = 16
    window: int = 32
    lr: float = 3e-3
    warm_up: int = 20


@dataclass(frozen=True)
class Way:
    """One way to meet. kind: ddp, power, gradients (compressed), local or diloco.

    compressor: its name, with what it takes. looks: validations, in steps; after meetings.
    """

    name: str
    kind: str
    compressor: str = ""
    feedback: bool = True
    every: int = 1
    fragments: int = 1
    overlap: int = 0
    keep: float = 0.0
    looks: int = 20
    seeds: tuple[int, ...] = (0,)


TOP, SEEDS = "top 0.01", (0, 1)
WAYS = (
    Way("DDP", "ddp", seeds=SEEDS),
    Way("8 bits", "gradients", "bits"),
    Way("sign", "gradients", "sign"),
    Way("sign, no feedback", "gradients", "sign", feedback=False),
    Way("top-k 1 %", "gradients", TOP, seeds=SEEDS),
    Way("top-k 1 %, no feedback", "gradients", TOP, feedback=False, seeds=SEEDS),
    Way("PowerSGD", "power"),
    Way("LocalSGD 20", "local", every=20),
    Way("DiLoCo 20", "diloco", every=20, seeds=SEEDS),
    Way("DiLoCo 20, 8 bits", "diloco", "bits", every=20),
    Way("DiLoCo 100", "diloco", every=100, looks=100),
    Way("DiLoCo 20, 4 fragments", "diloco", every=20, fragments=4),
    Way("DiLoCo 20, 4 fragments, overlap 4", "diloco", every=20, fragments=4, overlap=4, keep=0.5),
)
WHAT = (
    "Training of a Transformer on WikiText-2 by two ranks on two hosts with a slow cable between "
    "them. loss: validation, of the parameters that all replicas have, after `step` steps. sent: "
    "bytes of a rank by then, as `DiLoCo.sent` counts them (PowerSGD's: by the kernel). "
    "cable: bytes that the kernel has sent by the end, headers and acknowledgements among them. "
    "seconds: by then, evaluations not counted; median: of a step. steps: a step of DDP at "
    "several rates and delays, beside compute (a step without messages) plus a ring by alpha and "
    "beta: alpha of the cable as it is, plus the delay, and beta of the stated rate; by message: "
    "with alpha as a message of 4 KiB has it on that cable, where gloo waits for an answer"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_links", description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of each way")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps of DDP on each cable")
    options = parser.parse_args(arguments)
    if options.repeats < 3 or options.steps < max(way.every for way in WAYS):
        parser.error("use 3 or more --repeats, and --steps 100 or more")
    if reason := why_not_slow(DELAY):
        parser.error(reason)
    load = load_average()
    with two_hosts() as hosts, ranks(hosts, Model()) as ask:
        about = ask({"do": "about"})
        if "prose" in about["data"]:
            parser.error(f"real text is needed, and this is {about['data']}")
        steps = list(steps_on_cables(hosts, ask, options.repeats))
        for host in hosts:
            host.limit(RATE, DELAY)
        rows = list(trained(ask, options.steps))
    write(
        "slow_links-cpu-2", WHAT, rows, load_average=load, ranks=RANKS, bits_per_second=RATE,
        delay_ms=1000 * DELAY, steps_of_each=options.steps, model=asdict(Model()), steps=steps,
        **about,
    )  # fmt: skip


def steps_on_cables(hosts: tuple[Host, Host], ask, repeats: int) -> Iterator[dict]:
    """A row for each cable: a step of DDP, measured and foretold."""
    alpha = 0.0
    for bits, delay in CABLES:
        for host in hosts:
            if bits:
                host.limit(bits, delay)
        found = ask({"do": "steps", "repeats": repeats})
        if not bits:
            alpha = found["alpha"]
        row = {"bits_per_second": bits, "delay_ms": 1000 * delay}
        row |= summary(found.pop("seconds"), unit=1.0) | {"unit": "s"} | found
        row = foretell(row, alpha)
        say(row)
        yield row


def foretell(row: dict, alpha: float) -> dict:
    """`row` with "predicted" seconds of a step, and their "error", a share.

    alpha: of a message on the cable as it was. "by message": with what a small message takes on
    this very cable, in place of alpha plus the delay.
    """
    bits, known = row["bits_per_second"], alpha + row["delay_ms"] / 1000
    beta = 8 / bits if bits else 0.0
    predicted, by_message = (
        row["compute"] + ring(RANKS, row["bytes"], Link("cable", each, beta))
        for each in (known, row["alpha"])
    )
    return row | {
        "predicted": round(predicted, 4),
        "error": round(predicted / row["median"] - 1, 3),
        "by message": round(by_message, 4),
    }


def trained(ask, steps: int) -> Iterator[dict]:
    """A row for each way and seed."""
    for seed in SEEDS:
        for way in WAYS:
            if seed in way.seeds:
                job = {"do": "train", "way": asdict(way), "steps": steps, "seed": seed}
                row = {"way": way.name, "seed": seed, "every": way.every,
                       "fragments": way.fragments, "overlap": way.overlap}  # fmt: skip
                found = ask(job)
                row |= summary(found.pop("each"), unit=1.0) | {"unit": "s"} | found
                say(row)
                yield row


def say(row: dict) -> None:
    """One line on standard output."""
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()


@contextmanager
def ranks(hosts: tuple[Host, Host], model: Model):
    """A function that has the ranks on `hosts` do a job, and returns what rank 0 found.

    Raises RuntimeError where a rank has ended.
    """
    started = [_start(rank, host, hosts[0], model) for rank, host in enumerate(hosts)]

    def ask(job: dict) -> dict:
        for process in started:
            assert process.stdin
            process.stdin.write(f"{json.dumps(job)}\n")
            process.stdin.flush()
        assert started[0].stdout
        line = started[0].stdout.readline()
        if not line:
            raise RuntimeError("a rank has ended early; it has said why above")
        return json.loads(line)

    try:
        yield ask
    finally:
        for process in started:
            assert process.stdin
            process.stdin.close()
        time.sleep(1)
        for process in started:
            process.kill()
            process.wait()


def _start(rank: int, host: Host, first: Host, model: Model) -> subprocess.Popen:
    words = ["-m", "benchmarks.slow_links_ranks", str(rank), first.address]
    return subprocess.Popen(
        host.command(sys.executable, *words, json.dumps(asdict(model))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": search_path(),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "GLOO_SOCKET_IFNAME": host.interface,
            "TORCH_CPP_LOG_LEVEL": "ERROR",  # an address without a name is no news here
            "OMP_NUM_THREADS": "1",
        },
    )


if __name__ == "__main__":
    main()
