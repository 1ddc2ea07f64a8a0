"""Many runs in which things go wrong: is anything ever lost, and how long until training goes on?

    python -m benchmarks.soak [--seeds 200] [--from 0] [--cold-every 20]

Processes start warm, from one that has torch loaded, which a cluster has not. So now and then a
cold run, in which workers are killed twice, is timed under the same load: for the ratio of what a
worker's death costs to the start of workers. Goes on after a run in which something was lost, lists
it, and ends with status 1.
"""

import argparse
import collections
import contextlib
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import check_repeats, summary, write
from rankbook.live.torchrun.session import Torchrun
from rankbook.testbed.faults import KINDS, CannotMount, Driver, Fault, FaultRun, Plan, draw_plan

START = "start of the workers"  # from their birth to the first step


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--cold-every", type=int, default=20)
    options = parser.parse_args(arguments)
    if options.cold_every < 1:
        parser.error(f"--cold-every {options.cold_every}: use 1 or more")
    check_repeats(parser, options.seeds)
    return options


def cold_plan(seed: int) -> Plan:
    """Two nodes with a worker each, of which one is killed twice."""
    draw = random.Random(seed)
    killed = tuple(Fault("worker_killed", 5, round(draw.random(), 3)) for _ in range(2))
    return Plan(seed, nodes=2, workers=1, steps=50, faults=killed)


def table(warm: list[FaultRun], cold: list[FaultRun]) -> list[dict]:
    """A row for each kind of fault, warm and cold: how often, and seconds to the next step."""
    rows = []
    for start, runs in (("warm", warm), ("cold", cold)):
        seconds = {START: [run.start for run in runs if run.start]}
        injected = [each for run in runs for each in run.injected]
        for kind in KINDS:
            seconds[kind] = [i.seconds for i in injected if i.fault.kind == kind and i.seconds]
        counts = collections.Counter(each.fault.kind for each in injected)
        rows += [
            {"processes": start, "fault": kind, "count": counts.get(kind, len(times))}
            | summary(times, unit=1.0)
            for kind, times in seconds.items()
            if times
        ]
    starts = [row for row in rows if (row["processes"], row["fault"]) == ("cold", START)]
    for row in rows:
        if starts and row["processes"] == "cold":
            row["times the start"] = round(row["median"] / starts[0]["median"], 2)
    return rows


def main() -> int:
    """Run, and write ``book/results/soak.json``."""
    options = parse()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the ranks of a toy, and more than there are GPUs
    runs, skipped, load, began = {"warm": [], "cold": []}, [], [], time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rankbook-soak-"))

    def live(start: str, driver: Driver, plan: Plan) -> None:
        try:
            run = driver.run(plan)
        except CannotMount as error:
            skipped.append({"seed": plan.seed, "why": str(error)})
            return
        except Exception as error:  # of the driver itself: counted, and the others go on
            run = FaultRun(plan, driver.folder, [f"the driver failed: {error!r}"])
        runs[start].append(run)
        load.append(os.getloadavg()[0])
        print(f"{start}, {run.seconds:.0f} s, load {load[-1]:.1f}: {run}", flush=True)

    with contextlib.closing(Torchrun()) as torchrun:
        warm = Driver(torchrun, folder / "warm")
        cold = Driver(torchrun, folder / "cold", cold=True)
        for seed in range(options.first, options.first + options.seeds):
            live("warm", warm, draw_plan(seed))
            if seed % options.cold_every == options.cold_every - 1:
                live("cold", cold, cold_plan(seed))
    lost = [run for some in runs.values() for run in some if run.problems]
    path = report(runs["warm"], runs["cold"], skipped, load, time.monotonic() - began)
    print(path.read_text())
    print(f"nothing lost in any run; {path}" if not lost else f"LOST: {len(lost)}, see {folder}")
    return int(bool(lost))


def report(
    warm: list[FaultRun],
    cold: list[FaultRun],
    skipped: list[dict],
    load: list[float],
    seconds: float,
) -> Path:
    """Write the result file."""
    both = warm + cold
    lost = [{"seed": run.plan.seed, "what": str(run)} for run in both if run.problems]
    return write(
        f"soak-cpu-{os.cpu_count()}",
        "seconds from a fault to the next step of those who go on, by the kind of fault; "
        f"{sum(not run.problems for run in warm)} of {len(warm)} seeds lost nothing",
        table(warm, cold),
        seeds=[min(run.plan.seed for run in warm), max(run.plan.seed for run in warm)],
        passed=sum(not run.problems for run in both),
        runs=len(both),
        compared_to_the_bit=sum(run.exactly for run in both),
        started_anew={run.plan.seed: run.given_up for run in both if run.given_up},
        cold_start=summary([run.start for run in cold], unit=1.0) if cold else None,
        goal={"worker_killed, cold, times the start": 3},
        lost=lost,
        skipped=skipped,
        minutes=round(seconds / 60, 1),
        load_average={"lowest": min(load), "highest": max(load)},
    )


if __name__ == "__main__":
    sys.exit(main())
