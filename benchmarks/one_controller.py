"""The same all_reduce and the same faults on live ranks and under Monarch: page A2.

    python -m benchmarks.one_controller faults [--repeats 3] [--python PYTHON]
    python -m benchmarks.one_controller costs [--repeats 50] [--python PYTHON]

Writes one_controller-cpu-2.json or one_controller_costs-cpu-2.json (book/results). Monarch goes
into an environment of its own, unless PYTHON has it. What is compared is done in turn. Linux.
"""

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.live import ENVIRONMENTS, PLAIN, WARM, Notebooks, run
from benchmarks.record import RESULTS, check_repeats, summary, write
from benchmarks.rival_case import ENDED, Kernel
from benchmarks.rival_systems import SYSTEMS, System, install, ranks
from rankbook.programs.one_controller import FAULTS, WAYS, try_faults, verdict
from rankbook.programs.one_controller.case import STOP

MONARCH = next(system for system in SYSTEMS if system.name == "monarch")
LIVE = ranks(2, "--timeout 10")
SOURCE = re.compile(r"Cell In|---->|\s+\d+ ")  # what a traceback shows of a cell
HANDLED = 60.0  # seconds that a cell with a fault may take
STEP = """import os, signal, time

def step(fault=None):
    x = torch.ones(4)
    if rank == 1:
        if fault == "raises":
            raise ValueError("no data on rank 1")
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hangs":
            time.sleep(600)
        if fault == "shape":
            x = torch.ones(8)
    dist.all_reduce(x)
    return x.tolist()
"""
PROGRAM = "rankbook.programs.one_controller"
STORE = "import tempfile; store = tempfile.mkdtemp() + '/store'"
START = {  # cells that make two ranks, and the cell that does a step
    "live ranks": ((*LIVE.start, f"%%ranks\n{STEP}"), "%%ranks\nprint(step())"),
    "Monarch, first": ((STORE, f"from {PROGRAM}.first import First\nranks = First(store)"),
                       "print(ranks.step())"),
    "Monarch, careful": ((STORE, f"from {PROGRAM}.careful import Careful\nranks = Careful()\n"
                          "await ranks.start(store)"), "print(await ranks.step())"),
}  # fmt: skip
MANY = {  # cells that do a hundred steps: ordered one by one, or all in one order
    "live ranks": ("", "%%ranks\nfor _ in range(100): step()"),
    "Monarch, first": ("for _ in range(100): ranks.step()", "ranks.ranks.steps.call(100).get();"),
    "Monarch, careful": ("for _ in range(100): await ranks.step()",
                         "await ranks.ranks.steps.call(100);"),
}  # fmt: skip
FAULTS_WHAT = (
    "A fault of rank 1 in an all_reduce on 2 CPU ranks, gloo, time-out 10 s: what the controller "
    "says of the cause (first; later: behind something else; without a rank; nothing), seconds "
    "until it has control again (where rank 1 hangs, Ctrl-C comes after 7 s, except under the "
    "careful program, which asks after 5), whether the next step works, and how and in which time "
    "the ranks were repaired. first, careful: two programs under Monarch"
)
COSTS_WHAT = (
    "What 2 CPU ranks cost under each system, in a notebook: from the kernel to the first "
    "all_reduce of four numbers; a cell that does one; a hundred ordered one by one in a cell, or "
    "in one order (times a step). plain cell: `pass`, no ranks"
)
SIZES = """
import importlib.metadata as m, json, re, sys
def needs(name, seen):
    name = re.sub("[-_.]+", "-", name).lower()
    if name in seen: return seen
    try: d = m.distribution(name)
    except m.PackageNotFoundError: return seen
    seen[name] = sum(f.size or 0 for f in d.files or [])
    for r in d.requires or []:
        if "extra ==" not in r: needs(re.match(r"[A-Za-z0-9_.-]+", r)[0], seen)
    return seen
torch = needs("torch", {})
more = {k: v for k, v in needs(sys.argv[1], {}).items() if k not in torch}
print(json.dumps({"packages": len(more), "MB": round(sum(more.values()) / 1e6)}))
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["faults", "costs"])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--python", help="one that has Monarch and this environment's torch")
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or {"faults": 3, "costs": 50}[options.what]
    check_repeats(parser, options.repeats)
    return options


def monarch(python: str | None) -> str:
    """The Python that has Monarch. Ends the program with one sentence where there is none."""
    try:
        python = python or install(MONARCH, ENVIRONMENTS)
        subprocess.run([python, "-c", "import monarch"], check=True, capture_output=True)
    except (OSError, RuntimeError, subprocess.CalledProcessError):
        raise SystemExit(
            "benchmarks.one_controller: Monarch is not here and cannot be installed; it has wheels "
            f"for Linux: pip install {MONARCH.requires}, then --python PYTHON"
        ) from None
    return python


def live_fault(fault: str) -> dict:
    """One fault on live ranks, in a notebook of its own."""
    cells, step = START["live ranks"]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Kernel(LIVE, sys.executable, Path(folder)) as kernel,
    ):
        for cell in (*cells, step):
            run(kernel, cell)
        began = time.monotonic()
        kernel.begin(f"%%ranks\nstep({fault!r})")
        if fault == "hangs":
            time.sleep(STOP)
            kernel.interrupt()
        assert kernel.wait(HANDLED) == ENDED, f"{fault}: no end in {HANDLED} s"
        seconds = time.monotonic() - began
        text, error = kernel.said()
        said = [line for line in error.splitlines() if line.strip() and not SOURCE.match(line)]
        row = {"fault": fault, "way": "live ranks", "said": said, "seconds": seconds}
        row |= {"printed": text.splitlines(), "seen": verdict(fault, said)}
        return row | after(kernel, cells, step)


def after(kernel: Kernel, cells: tuple[str, ...], step: str) -> dict:
    """Whether the next cell works; if not, the repair that the report asks for."""
    began = time.monotonic()
    if works(kernel, step):
        return {"next": True, "repair": "a new group", "repaired": time.monotonic() - began}
    began = time.monotonic()
    for cell in ("%ranks restart", cells[-1]):
        run(kernel, cell)
    assert works(kernel, step)
    return {"next": False, "repair": "new processes", "repaired": time.monotonic() - began}


def works(kernel: Kernel, step: str) -> bool:
    """Whether a step gives the right sums."""
    result = kernel.run(step, HANDLED)
    return not result.error and "[2.0, 2.0, 2.0, 2.0]" in result.text


def faults(python: str, repeats: int) -> list[dict]:
    """Medians: one row for each fault and way."""
    rows = collections.defaultdict(list)
    for _ in range(repeats):
        for fault in FAULTS:
            for row in (live_fault(fault), *try_faults([fault], WAYS, python)):
                print(json.dumps(row), flush=True)
                rows[fault, row["way"]].append(row)
    return [table_row(cases) for cases in rows.values()]


def table_row(cases: list[dict]) -> dict:
    """What was said most often, and the median of the times."""
    seen = collections.Counter(case["seen"] for case in cases)
    seen_most, _ = seen.most_common(1)[0]
    case = next(c for c in cases if c["seen"] == seen_most)
    row = {key: case[key] for key in ("fault", "way")} | {"seen": seen_most}
    row["agree"] = f"{seen[seen_most]} of {len(cases)}"
    row |= {"unit": "s"} | summary([c["seconds"] for c in cases], unit=1)
    row["next"] = f"{sum(c['next'] for c in cases)} of {len(cases)}"
    if repaired := [c["repaired"] for c in cases if "repaired" in c]:
        row["repair"] = next(c["repair"] for c in cases if "repair" in c)
        row["repair, s"] = round(statistics.median(repaired), 2)
    return row | {"said": case["said"], "printed": case["printed"]}


def system(way: str) -> System:
    """As the kernels of the other benchmarks want it."""
    cells, step = START[way]
    requires = "" if way == "live ranks" else MONARCH.requires
    return System(way, requires, cells, lambda code: step)


class Beside(Notebooks):
    """Kernels in which the Monarch of a given Python is used."""

    python = sys.executable

    def start(self, system: System, prove: bool = True) -> tuple[Kernel, float]:
        """A kernel with its ranks; the seconds from the kernel to their first all_reduce."""
        place = self._folder / str(len(self._kernels))
        place.mkdir()
        python = self.python if system.requires else sys.executable
        kernel = Kernel(system, python, place)
        self._kernels.append(kernel)
        began = time.monotonic()
        for cell in (*system.start, *([system.wrap("")] if prove else [])):
            run(kernel, cell)
        return kernel, time.monotonic() - began


def costs(python: str, repeats: int) -> list[dict]:
    """Medians: one row for each way and cost."""
    times = collections.defaultdict(list)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Beside(Path(folder), ENVIRONMENTS) as books,
    ):
        books.python = python
        for _ in range(max(3, repeats // 10)):
            for way in START:
                kernel, seconds = books.start(system(way))
                kernel.__exit__()
                times[way, "start", "s"].append(seconds)
        kernels = {way: books.start(system(way))[0] for way in START}
        kernels["plain cell"], _ = books.start(PLAIN, prove=False)
        for turn in range(-WARM, repeats):
            for way, kernel in kernels.items():
                timed = calls(kernel, way)
                if turn >= 0:
                    for cost, seconds in timed.items():
                        times[way, cost, "ms"].append(seconds)
    return [
        {"way": way, "cost": cost, "unit": unit, **summary(each, {"s": 1, "ms": 1000}[unit])}
        for (way, cost, unit), each in times.items()
    ]


def calls(kernel: Kernel, way: str) -> dict[str, float]:
    """Seconds of a cell with one step, and of a step where a cell has a hundred."""
    if way == "plain cell":
        return {"a cell": run(kernel, "pass")}
    one_by_one, in_one = MANY[way]
    timed = {"a cell": run(kernel, START[way][1])}
    if one_by_one:
        timed["100, one by one"] = run(kernel, one_by_one) / 100
    return timed | {"100, in one order": run(kernel, in_one) / 100}


def sizes(python: str) -> dict[str, dict]:
    """Packages and megabytes that each needs besides torch and what torch needs."""
    found = {}
    for way, interpreter, package in (
        ("live ranks", sys.executable, "rankbook"),
        ("Monarch", python, MONARCH.package),
    ):
        command = [interpreter, "-c", SIZES, package]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[way] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure one thing, print it, and record it."""
    options = parse()
    python = monarch(options.python)
    os.environ["PYTHONPATH"] = str(RESULTS.parent.parent / "src")
    load = [os.getloadavg()[0]]
    measure = {"faults": faults, "costs": costs}[options.what]
    rows = measure(python, options.repeats)
    load.append(os.getloadavg()[0])
    for row in rows:
        print(row)
    more = {"load": {"lowest": round(min(load), 1), "highest": round(max(load), 1)}, "kind": "CPU"}
    more |= {"ranks": 2, "rival": MONARCH.requires}
    if options.what == "costs":
        more["installed besides torch"] = sizes(python)
    name = {"faults": "one_controller-cpu-2", "costs": "one_controller_costs-cpu-2"}[options.what]
    what = {"faults": FAULTS_WHAT, "costs": COSTS_WHAT}[options.what]
    if options.python:  # its place is nobody else's business
        sys.argv = ["PYTHON" if word == options.python else word for word in sys.argv]
    if not options.no_record:
        print(write(name, what, rows, ("torch", "ipykernel", "jupyter_client"), **more))


if __name__ == "__main__":
    main()
