"""How long training stands still when things go wrong: torchrun's defaults, and short settings.

    python -m benchmarks.elastic_times [--repeats 3] [--workers 2] [--only SETTINGS ...]

Two nodes with some workers each, 1 to 3 allowed, plain torchrun, cold processes, the elastic
program with its small model: seconds from a fault to the next step of anyone. In each repeat the
jobs with short settings run one after the other; those that mostly wait run together, STAGGER
seconds apart, so that their starts do not meet. Writes book/results/elastic_times-cpu-2.json.
Nothing else should run on the machine meanwhile.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.elastic_jobs import FAULTS, PACE, SILENT, Recovery, TorchrunJob
from benchmarks.record import check_repeats, load_average, summary, write

DEFAULTS, SHORT = "defaults", "short"
SHORT_CONF = {"last_call_timeout": 1, "keep_alive_interval": 1, "keep_alive_max_attempt": 5}
SHORT_OPTIONS = {"monitor-interval": 0.1, "shutdown-timeout": 5}
TORCHRUNS = {"last_call_timeout": 30, "keep_alive_interval": 5, "keep_alive_max_attempt": 3,
             "monitor-interval": 0.1, "shutdown-timeout": 30}  # fmt: skip
STAGGER = 10.0  # seconds between the starts of two jobs that mostly wait
COLD = "cold start of a worker"
WHAT = (
    "Two torchrun agents, `workers` each (--nnodes 1:3), cold processes: seconds from a fault "
    "to the next step of the training. pause: between the steps before and after. cold start: from "
    f"a worker's birth to its first step, in the same runs. A step takes {PACE} s; a silent rank "
    f"is given up after {SILENT} s"
)


@dataclass(frozen=True)
class Row:
    """A job: settings by name, what they are, and the faults that strike it, one after the other.

    together: whether the nodes start at once; otherwise b joins, which is a fault, too. waits:
    whether the job spends its time waiting, so that others may run at the same time.
    """

    settings: str
    faults: tuple[str, ...]
    conf: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    waits: bool = False


def short(change: str, faults: tuple[str, ...], conf=None, options=None, waits=False) -> Row:
    """The short settings with one change."""
    name = f"{SHORT}, {change}" if change else SHORT
    conf, options = SHORT_CONF | (conf or {}), SHORT_OPTIONS | (options or {})
    return Row(name, faults, conf, options, waits)


KILL, STOP, LEAVE, HUNG, LOSE, JOIN = FAULTS
ROWS = [
    short("", (KILL, LEAVE, JOIN, LOSE)),
    short("monitor-interval 5", (KILL,), options={"monitor-interval": 5}),
    Row(DEFAULTS, (KILL, LOSE), waits=True),
    Row(DEFAULTS, (LEAVE, JOIN), waits=True),
    short("last_call_timeout 30", (KILL,), conf={"last_call_timeout": 30}, waits=True),
    short("shutdown-timeout 30", (HUNG,), options={"shutdown-timeout": 30}, waits=True),
    short("", (STOP,), waits=True),  # 30 s, whatever --shutdown-timeout says
    short("keep-alive 3 x 5 s", (LOSE,), waits=True,
          conf={"keep_alive_interval": 5, "keep_alive_max_attempt": 3}),
    short("", (HUNG,), waits=True),
]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    rows = [row for row in ROWS if not options.only or row.settings in options.only]
    load = load_average()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(rows, options.repeats, Path(folder), options.stagger, options.workers)
    result = table(found)
    for row in result:
        print("{fault:24} {settings:30} {median:7.2f} s ({p10} to {p90})".format(**row))
    if options.only:
        print("a part only: nothing is written")
        return
    more = {
        "workers": options.workers,
        "short": SHORT_CONF | SHORT_OPTIONS,
        "defaults": TORCHRUNS,
        "faults": FAULTS,
    }
    minutes = round((time.monotonic() - began) / 60, 1)
    print(write("elastic_times-cpu-2", WHAT, result, libraries=("torch",), kind="CPU", unit="s",
                **more, **verdict(result), load=load, minutes=minutes))  # fmt: skip


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of each node (2)")
    parser.add_argument("--stagger", type=float, default=STAGGER, metavar="SECONDS")
    names = sorted({row.settings for row in ROWS})
    parser.add_argument("--only", nargs="+", metavar="SETTINGS", help=f"a part: {names}")
    options = parser.parse_args(arguments)
    if unknown := set(options.only or ()) - set(names):
        parser.error(f"--only: there are no settings {sorted(unknown)}; use some of {names}")
    if not options.only:
        check_repeats(parser, options.repeats)
    return options


def measure(rows: list[Row], repeats: int, folder: Path, stagger: float, workers: int = 1) -> dict:
    """The recoveries by (fault, settings), each `repeats` times, in turn."""
    found: dict[tuple[str, str], list[Recovery]] = defaultdict(list)
    for repeat in range(repeats):
        alone = [(n, row) for n, row in enumerate(rows) if not row.waits]
        waiting = [(n, row) for n, row in enumerate(rows) if row.waits]
        results = [(row, run(row, folder / f"{repeat}-{n}", workers)) for n, row in alone]
        with ThreadPoolExecutor(max(1, len(waiting))) as pool:
            jobs = [
                pool.submit(run, row, folder / f"{repeat}-{n}", workers, delay=stagger * place)
                for place, (n, row) in enumerate(waiting)
            ]
            results += [(row, job.result()) for (_, row), job in zip(waiting, jobs, strict=True)]
        for row, recoveries in results:
            for recovery in recoveries:
                found[recovery.fault, row.settings].append(recovery)
        print(f"repeat {repeat + 1} of {repeats} done", flush=True)
    return found


def run(row: Row, folder: Path, workers: int = 1, delay: float = 0.0) -> list[Recovery]:
    """One job, and what its faults cost."""
    time.sleep(delay)
    with TorchrunJob(folder, row.conf, row.options, workers) as job:
        job.start_together()
        return [job.strike(fault) for fault in row.faults]


def table(found: dict) -> list[dict]:
    """A row for each fault and settings, and one for the cold start after a worker's death."""
    rows = []
    for fault, settings in sorted(found, key=lambda key: (list(FAULTS).index(key[0]), key[1])):
        recoveries = found[fault, settings]
        rows.append(
            {"fault": fault, "settings": settings}
            | summary([r.seconds for r in recoveries], unit=1.0)
            | {"pause": round(statistics.median(r.pause for r in recoveries), 3)}
            | {"cold start": round(statistics.median(r.cold_start for r in recoveries), 3)}
        )
    cold = [r.cold_start for r in found.get((KILL, SHORT), [])]
    if cold:
        rows.append({"fault": COLD, "settings": SHORT} | summary(cold, unit=1.0))
    return rows


def verdict(rows: list[dict]) -> dict:
    """What a worker's death costs with short settings: in cold starts, and beside the defaults."""
    median = {(row["fault"], row["settings"]): row["median"] for row in rows}
    return {
        "death in cold starts": round(median[KILL, SHORT] / median[COLD, SHORT], 2),
        "death, short over defaults": round(median[KILL, SHORT] / median[KILL, DEFAULTS], 2),
    }


if __name__ == "__main__":
    main()
