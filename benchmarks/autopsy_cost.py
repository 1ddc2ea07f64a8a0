"""What recording for an autopsy costs the steps of a training loop.

    python -m benchmarks.autopsy_cost [--repeats 40]

Writes book/results/autopsy_cost-cpu-2.json. Two jobs of two ranks, one of which records, take turns
in blocks of about a second; the job whose turn it is not is stopped (SIGSTOP), its recorder too.
"""

import argparse
import os
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import about, show
from benchmarks.join import middle
from benchmarks.record import check_repeats, summary, write
from rankbook.autopsy import record
from rankbook.core.parent_death import die_with_parent

RANKS, WIDTH, ROWS = 2, 512, 16
WARM_UP = 2  # blocks
BLOCK = 1.0  # seconds: the recorder looks once in it, as its default is
WAYS = ("plain", "recorded")
WHAT = (
    f"A training step (forward, backward, SGD) of three linear layers of width {WIDTH} in DDP on "
    f"{RANKS} ranks, a thread a rank, with and without rankbook.autopsy.record: mean step of the "
    f"slowest rank in blocks of about {BLOCK:g} s, by turns. times plain: median over neighbours "
    "in time, with the bounds of the median that hold with 95% confidence"
)


class Job:
    """Two ranks that train when told to, and are stopped otherwise."""

    def __init__(self, folder: Path, recorded: bool):
        spawn, self._pipes, self._ranks = mp.get_context("spawn"), [], []
        records = str(folder / "records") if recorded else ""
        for rank in range(RANKS):
            here, there = spawn.Pipe()
            process = spawn.Process(
                target=on_rank, args=(rank, str(folder), records, there, os.getpid())
            )
            process.start()
            self._pipes.append(here)
            self._ranks.append(process)
        self._wait()

    def block(self, steps: int) -> float:
        """Seconds a step of the slowest rank."""
        self.signal(signal.SIGCONT)
        for pipe in self._pipes:
            pipe.send(steps)
        seconds = max(self._wait())
        self.signal(signal.SIGSTOP)
        return seconds / steps

    def end(self) -> None:
        """Let the ranks go."""
        self.signal(signal.SIGCONT)
        for pipe in self._pipes:
            pipe.send(0)
        for rank in self._ranks:
            rank.join(30)
            rank.kill()

    def signal(self, number: int) -> None:
        """To both ranks, if they live."""
        for rank in self._ranks:
            if rank.is_alive():
                os.kill(rank.pid, number)

    def _wait(self) -> list[float]:
        answers = []
        for pipe in self._pipes:
            if not pipe.poll(120):
                raise TimeoutError("a rank has not answered in 120 s")
            answers.append(pipe.recv())
        return answers


def on_rank(rank: int, folder: str, records: str, pipe: Connection, parent: int) -> None:
    """Train as many steps as the pipe says, and tell the seconds, until it says 0."""
    die_with_parent(parent)
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    if records:
        record(records)
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3))))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(ROWS, WIDTH)
    pipe.send(0.0)
    while steps := pipe.recv():
        dist.barrier()
        began = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(batch).pow(2).mean().backward()
            optimizer.step()
        pipe.send(time.perf_counter() - began)
    del model  # a DDP has to go before its group, or the two may wait for each other
    dist.destroy_process_group()


def measure(repeats: int, block: float = BLOCK) -> dict[str, list[float]]:
    """Seconds a step by way, `repeats` blocks of each, by turns."""
    with tempfile.TemporaryDirectory() as name:
        folders = {way: Path(name, way) for way in WAYS}
        jobs = {}
        try:
            for way, folder in folders.items():
                folder.mkdir()
                jobs[way] = Job(folder, way == "recorded")
                first = [jobs[way].block(10) for _ in range(WARM_UP)]
            steps = max(1, round(block / first[-1]))
            times = {way: [] for way in WAYS}
            for turn in range(repeats):
                for way in WAYS[:: 1 - 2 * (turn % 2)]:
                    times[way].append(jobs[way].block(steps))
        finally:
            for job in jobs.values():
                job.end()
        if not list(folders["recorded"].glob("records/*.json")):
            raise RuntimeError("nothing was recorded: this would compare equal jobs")
    return times


def table(times: dict[str, list[float]]) -> list[dict]:
    """One row a way."""
    rows = [{"way": way, "unit": "ms"} | summary(times[way]) for way in WAYS]
    ratios = [b / a for a, b in zip(*(times[way] for way in WAYS), strict=True)]
    rows[1]["times plain"], *rows[1]["95%"] = middle(ratios)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Time steps with and without the recorder.")
    parser.add_argument("--repeats", type=int, default=40, help="blocks of each way (40)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    more = about(RANKS)
    rows = table(measure(options.repeats))
    show(*rows)
    print(write(f"autopsy_cost-cpu-{RANKS}", WHAT, rows, libraries=("torch",), **more))


if __name__ == "__main__":
    main()
