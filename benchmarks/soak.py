"""Many runs in which things go wrong: is anything ever lost, and how long until training goes on?

    python -m benchmarks.soak [--seeds 500] [--from 0] [--drivers 3] [--cold-every 50] [--runs FILE]

A job mostly waits, so several drivers work side by side. Each run is written to FILE as soon as it
is over; those that are there already are not run again. So SIGTERM (or Ctrl-C) ends it after the
runs that are under way, and the same command goes on. What was under way while all of it was
stopped (SIGSTOP) is run again.

Processes start warm, from one that has torch loaded, which a cluster has not. So now and then a
cold run, in which workers are killed twice, is timed under the same load: for the ratio of what a
worker's death costs to the start of workers. Goes on after a run in which something was lost, lists
it, and ends with status 1. At the end, the seeds in which torch's agents gave up run once more with
TORCH_ELASTIC_WORKER_IDENTICAL=1, which spares agents an exchange that they can die in.
"""

import argparse
import collections
import contextlib
import json
import os
import queue
import random
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.record import check_repeats, summary, write
from rankbook.testbed.faults import (
    KINDS,
    CannotInject,
    Driver,
    Fault,
    FaultRun,
    Machines,
    Plan,
    References,
    draw_plan,
)

IDENTICAL = "TORCH_ELASTIC_WORKER_IDENTICAL"
START = "start of the workers"  # from their birth to the first step
STOPPED = 8.0  # seconds that a thread which sleeps for one does not lose on a busy machine
RUNS = Path(__file__).parent.parent / "_build" / "soak.jsonl"
COUNTED = ("passed", "exactly", "sharded", "several workers a node", "hosts")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--drivers", type=int, default=3, help="that work side by side (3)")
    parser.add_argument("--cold-every", type=int, default=50)
    parser.add_argument("--runs", type=Path, default=RUNS, help="where each run is written")
    options = parser.parse_args(arguments)
    for name in ("cold_every", "drivers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: use 1 or more")
    check_repeats(parser, options.seeds)
    return options


def cold_plan(seed: int) -> Plan:
    """Two nodes with a worker each, of which one is killed twice."""
    draw = random.Random(seed)
    killed = tuple(Fault("worker_killed", 5, round(draw.random(), 3)) for _ in range(2))
    return Plan(seed, nodes=2, workers=1, steps=50, faults=killed)


def wanted(options: argparse.Namespace, done: set[tuple[str, int]]) -> list[tuple[str, Plan]]:
    """What is to run, warm and cold, without what is `done`."""
    plans = []
    for seed in range(options.first, options.first + options.seeds):
        plans.append(("warm", draw_plan(seed)))
        if seed % options.cold_every == options.cold_every - 1:
            plans.append(("cold", cold_plan(seed)))
    return [(start, plan) for start, plan in plans if (start, plan.seed) not in done]


def once_more(rows: list[dict]) -> list[tuple[str, Plan]]:
    """The plans in which agents gave up, without those that ran once more."""
    done = {row["seed"] for row in rows if row["start"] == "identical"}
    gave_up = [row["seed"] for row in rows if row["start"] == "warm" and row.get("given up")]
    return [("identical", draw_plan(seed)) for seed in gave_up if seed not in done]


def row(start: str, run: FaultRun) -> dict:
    """What is kept of a run."""
    plan = run.plan
    return {
        "start": start,
        "seed": plan.seed,
        "passed": not run.problems,
        "questions": run.failed,
        "told": str(run),
        "exactly": run.exactly,
        "sharded": plan.sharded,
        "several workers a node": plan.workers > 1,
        "hosts": any(KINDS[kind].hosts for kind in plan.kinds),
        "given up": run.given_up,
        "first step": run.start,
        "faults": [[each.fault.kind, each.seconds] for each in run.injected],
        "seconds": round(run.seconds, 1),
        "load": round(os.getloadavg()[0], 2),
    }


def table(rows: list[dict]) -> list[dict]:
    """A row for each kind of fault, warm and cold: how often, and seconds to the next step."""
    found = []
    for start in ("warm", "cold"):
        runs = [row for row in rows if row["start"] == start and "why" not in row]
        seconds = {START: [run["first step"] for run in runs if run["first step"]]}
        injected = [each for run in runs for each in run["faults"]]
        for kind in KINDS:
            seconds[kind] = [took for name, took in injected if name == kind and took]
        counts = collections.Counter(name for name, _ in injected)
        found += [
            {"processes": start, "fault": kind, "count": counts.get(kind, len(times))}
            | summary(times, unit=1.0)
            for kind, times in seconds.items()
            if times
        ]
    starts = [each for each in found if (each["processes"], each["fault"]) == ("cold", START)]
    for each in found:
        if starts and each["processes"] == "cold":
            each["times the start"] = round(each["median"] / starts[0]["median"], 2)
    return found


class Soak:
    """Drivers side by side, each of which takes the next plan; what comes out goes to a file."""

    def __init__(self, plans: list[tuple[str, Plan]], file: Path, folder: Path):
        self._plans: queue.SimpleQueue = queue.SimpleQueue()
        for each in plans:
            self._plans.put(each)
        self._file, self._folder = file, folder
        self._references, self._writing = References(), threading.Lock()
        self._told, self._over = threading.Event(), threading.Event()
        self._woke = 0.0  # when it was last found to have been stopped

    def watch(self) -> None:
        """Until `over`: notice that the process was stopped, as its clock went on."""
        last = time.monotonic()
        while not self._over.wait(1.0):
            now = time.monotonic()
            if now - last > STOPPED:
                self._woke = now
            last = now

    def over(self) -> None:
        """End `watch`."""
        self._over.set()

    @property
    def told(self) -> bool:
        """Whether it was told to end."""
        return self._told.is_set()

    def end(self, *_) -> None:
        """Take no more plans."""
        self._told.set()

    def drive(self, number: int) -> None:
        """Run plans until there are none, or it is told to end."""
        folder = self._folder / str(number)
        with contextlib.closing(Machines()) as machines:
            drivers = {
                start: Driver(
                    machines, folder / start, start == "cold", references=self._references
                )
                for start in ("warm", "cold", "identical")
            }
            with contextlib.suppress(queue.Empty):
                while not self._told.is_set():
                    start, plan = self._plans.get_nowait()
                    began = time.monotonic()
                    result = self._run(start, drivers[start], plan)
                    if self._woke > began:
                        self._plans.put((start, plan))
                    else:
                        self._keep(result)

    def _run(self, start: str, driver: Driver, plan: Plan) -> dict:
        try:
            return row(start, driver.run(plan))
        except CannotInject as error:
            return {"start": start, "seed": plan.seed, "why": str(error)}
        except Exception as error:  # of the driver itself: counted, and the others go on
            return row(start, FaultRun(plan, driver.folder, [f"the driver failed: {error!r}"]))

    def _keep(self, result: dict) -> None:
        with self._writing, self._file.open("a", encoding="utf-8") as file:
            print(json.dumps(result), file=file)
        told = result.get("told", f"seed {result['seed']}: skipped, {result.get('why')}")
        print(f"{result['start']}, {result.get('seconds', 0):.0f} s: {told}", flush=True)


def main() -> int:
    """Run, and write ``book/results/soak-cpu-N.json``."""
    options = parse()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the ranks of a toy, and more than there are GPUs
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rankbook-soak-"))
    done = {(row["start"], row["seed"]) for row in read(options.runs)}
    if run_all(wanted(options, done), options, folder):
        os.environ[IDENTICAL] = "1"
        run_all(once_more(read(options.runs)), options, folder)
    rows = read(options.runs)
    path = report(rows, options.drivers)
    print(path.read_text())
    failed = len(lost(rows))
    print(f"LOST: {failed}, see {folder}" if failed else f"nothing lost in any run; {path}")
    return int(failed > 0)


def run_all(plans: list[tuple[str, Plan]], options: argparse.Namespace, folder: Path) -> bool:
    """Run them; whether it got to the end."""
    soak = Soak(plans, options.runs, folder)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, soak.end)
    watching = threading.Thread(target=soak.watch)
    watching.start()
    with ThreadPoolExecutor(options.drivers) as pool:
        list(pool.map(soak.drive, range(min(options.drivers, len(plans)))))
    soak.over()
    return not soak.told


def read(file: Path) -> list[dict]:
    """The runs that are over, by seed."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return sorted((json.loads(line) for line in lines), key=lambda row: row["seed"])


def lost(rows: list[dict]) -> list[dict]:
    """Every run that did not pass, whichever kind of start it had: its seed, and what failed."""
    return [
        {
            "start": row["start"],
            "seed": row["seed"],
            "questions": row.get("questions", []),  # by number; runs of long ago have none
            "what": row["told"],
        }
        for row in rows
        if not row.get("passed", True)
    ]


def report(rows: list[dict], drivers: int) -> Path:
    """Write the result file."""
    runs = [row for row in rows if "why" not in row and row["start"] != "identical"]
    again = [row for row in rows if row["start"] == "identical"]
    warm = [run for run in runs if run["start"] == "warm"]
    cold = [run["first step"] for run in runs if run["start"] == "cold" and run["first step"]]
    counts = {name: sum(run[name] for run in runs) for name in COUNTED}
    return write(
        f"soak-cpu-{os.cpu_count()}",
        "seconds from a fault to the next step of those who go on, by the kind of fault; "
        f"{sum(run['passed'] for run in warm)} of {len(warm)} seeds lost nothing, and "
        f"{sum(run['passed'] for run in again)} of the {len(again)} that ran once more",
        table(rows),
        seeds=[min(run["seed"] for run in warm), max(run["seed"] for run in warm)],
        passed=counts["passed"],
        runs=len(runs),
        faults=sum(len(run["faults"]) for run in runs),
        compared_to_the_bit=counts["exactly"],
        sharded=counts["sharded"],
        several_workers_a_node=counts["several workers a node"],
        on_two_hosts=counts["hosts"],
        started_anew={run["seed"]: run["given up"] for run in runs if run["given up"]},
        once_more={
            "with": f"{IDENTICAL}=1",
            "runs": len(again),
            "passed": sum(run["passed"] for run in again),
            "started_anew": {run["seed"]: run["given up"] for run in again if run["given up"]},
        },
        cold_start=summary(cold, unit=1.0) if cold else None,
        goal={"worker_killed, cold, times the start": 3},
        lost=lost(rows),
        skipped=[{"seed": row["seed"], "why": row["why"]} for row in rows if "why" in row],
        drivers=drivers,
        minutes=round(sum(run["seconds"] for run in runs) / 60, 1),
        load_average={
            "lowest": min(run["load"] for run in runs),
            "highest": max(run["load"] for run in runs),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
