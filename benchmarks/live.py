"""Live ranks beside a plain cell, beside themselves without the account, and beside ipyparallel.

    python -m benchmarks.live cells [--repeats 100] [--ranks 2]
    python -m benchmarks.live starts [--repeats 10] [--ranks 4]
    python -m benchmarks.live leaks [--repeats 200] [--ranks 2]

Write book/results/live_cells.json, live_starts.json, live_leaks.json. What is compared is timed in
turn, in kernels of their own. ipyparallel is installed into an environment of its own. leaks ends
with status 1 if anything but memory has grown.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.record import check_repeats, summary, write
from benchmarks.rival_case import START, Kernel
from benchmarks.rival_systems import SYSTEMS, System, install, ipyparallel, ranks

PLAIN = System("a plain cell", "", (), str)
REDUCE = "dist.all_reduce(t)"
PROOF = "u = torch.ones(1); dist.all_reduce(u); print(f'sum={int(u)}')"
WARM = 5  # starts before anything is counted: the fork server, modules, caches
ENVIRONMENTS = Path(tempfile.gettempdir(), "rankbook-rivals")
CELLS = (
    "Round trip of a cell on {n} live ranks, with and without the account of calls, beside a cell "
    "of the notebook alone and ipyparallel's %%px. trivial: pass; all_reduce: of two numbers. "
    "times: the median over a plain cell's"
)
STARTS = (
    "From a fresh kernel to the first completed all_reduce on {n} ranks. times: the median over "
    "ipyparallel's (cluster, environment, import, process group)"
)
LEAKS = (
    "{repeats} times %ranks start -n {n}, a cell with an all_reduce, %ranks stop, in one notebook: "
    f"what its kernel has after {WARM} starts and after the last"
)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["cells", "starts", "leaks"])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or {"cells": 100, "starts": 10, "leaks": 200}[options.what]
    options.ranks = options.ranks or {"cells": 2, "starts": 4, "leaks": 2}[options.what]
    check_repeats(parser, options.repeats)
    return options


class Notebooks:
    """A kernel for each system, and what runs in it."""

    def __init__(self, folder: Path, environments: Path):
        self._folder, self._environments, self._kernels = folder, environments, []

    def __enter__(self) -> "Notebooks":
        return self

    def __exit__(self, *exception) -> None:
        for kernel in self._kernels:
            kernel.__exit__()

    def start(self, system: System, prove: bool = True) -> tuple[Kernel, float]:
        """A kernel with its ranks; the seconds from the kernel to their first right all_reduce."""
        place = self._folder / str(len(self._kernels))
        place.mkdir()
        kernel = Kernel(system, install(system, self._environments), place)
        self._kernels.append(kernel)
        began = time.monotonic()
        for cell in system.start:
            run(kernel, cell)
        if prove and system is not PLAIN:
            run(kernel, system.wrap(PROOF), expected="sum=")
        return kernel, time.monotonic() - began


def run(kernel: Kernel, cell: str, expected: str = "") -> float:
    """Run a cell that must succeed and print `expected`; return its seconds."""
    result = kernel.run(cell, START)
    if result.error or expected not in result.text:
        raise RuntimeError(f"{cell}\n{result.text}{result.error}")
    return result.seconds


def cells(books: Notebooks, n: int, repeats: int) -> list[dict]:
    """Round trips: one row for each system and cell."""
    systems = [PLAIN, ranks(n), ranks(n, "--no-check"), ipyparallel(n)]
    kernels = [(system, books.start(system)[0]) for system in systems]
    times: dict[tuple[str, str], list[float]] = {}
    for system, kernel in kernels:
        if system is not PLAIN:
            run(kernel, system.wrap("t = torch.ones(2)"))
    for turn in range(repeats + WARM):
        for system, kernel in kernels:
            for name, code in (("trivial", "pass"), ("all_reduce", REDUCE)):
                if system is not PLAIN or name == "trivial":
                    seconds = run(kernel, system.wrap(code))
                    if turn >= WARM:
                        times.setdefault((system.name, name), []).append(seconds)
    return rows_of(times, times[PLAIN.name, "trivial"], n, "ms", 1000.0)


def starts(books: Notebooks, n: int, repeats: int) -> list[dict]:
    """Times until there are ranks: one row for each system."""
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for system in (ranks(n), ipyparallel(n)):
            kernel, seconds = books.start(system)
            kernel.__exit__()
            times.setdefault((system.name, "start"), []).append(seconds)
    return rows_of(times, times["ipyparallel", "start"], n, "s", 1.0)


def rows_of(times: dict, base: list[float], n: int, unit: str, factor: float) -> list[dict]:
    """The table: medians, and their ratio to that of `base`."""
    middle = statistics.median(base)
    return [
        {"ranks": n, "system": system, "cell": cell, "unit": unit, **summary(seconds, factor),
         "times": round(statistics.median(seconds) / middle, 2)}
        for (system, cell), seconds in times.items()
    ]  # fmt: skip


def leaks(books: Notebooks, n: int, repeats: int) -> list[dict]:
    """What the kernel has before and after many starts and stops: one row for each thing."""
    with tempfile.TemporaryDirectory(prefix="live-") as name:  # nothing else is put there
        system = System("%%ranks", "", ("%load_ext rankbook",), str, env={"TMPDIR": name})
        kernel, _ = books.start(system, prove=False)
        return compared(sampled(kernel, Path(name), n, repeats))


def sampled(kernel: Kernel, folder: Path, n: int, repeats: int) -> list[dict[str, float]]:
    """What the kernel has after the first starts, ten times between, and at the end."""
    samples = []
    for number in range(1, repeats + WARM + 1):
        run(kernel, f"%ranks start -n {n}")
        run(kernel, f"%%ranks\n{PROOF}", expected=f"sum={n}")
        run(kernel, "%ranks stop")
        if number == WARM or (number > WARM and (number - WARM) % max(1, repeats // 10) == 0):
            samples.append(has(kernel, folder) | {"starts": number - WARM})
            print(samples[-1], flush=True)
    return samples


def has(kernel: Kernel, folder: Path) -> dict[str, float]:
    """Descriptors, threads, children, files of TMPDIR, and memory in MB of a kernel."""
    process = psutil.Process(kernel.pid)
    return {
        "file descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "processes": len(kernel.processes()),
        "files in TMPDIR": sum(1 for _ in folder.rglob("*")),
        "memory, MB": round(process.memory_info().rss / 1e6, 1),
    }


def compared(samples: list[dict[str, float]]) -> list[dict]:
    """One row a thing: its first count, its last, and its most."""
    first, last = samples[0], samples[-1]
    return [
        {"of the kernel": name, "starts": last["starts"], "before": first[name],
         "after": last[name], "most": max(sample[name] for sample in samples)}
        for name in first if name != "starts"
    ]  # fmt: skip


def grown(rows: list[dict]) -> list[str]:
    """What was counted and has become more."""
    counted = [row for row in rows if not row["of the kernel"].startswith("memory")]
    return [row["of the kernel"] for row in counted if row["after"] > row["before"]]


def main() -> None:
    """Measure one thing, print it, and record it."""
    options = parse()
    load = [os.getloadavg()[0]]
    do = {"cells": cells, "starts": starts, "leaks": leaks}[options.what]
    with (
        tempfile.TemporaryDirectory(prefix="live-", ignore_cleanup_errors=True) as folder,
        Notebooks(Path(folder), options.environments) as books,
    ):
        rows = do(books, options.ranks, options.repeats)
    load.append(os.getloadavg()[0])
    for row in rows:
        print(row)
    about = {"cells": CELLS, "starts": STARTS, "leaks": LEAKS}[options.what]
    about = about.format(n=options.ranks, repeats=options.repeats)
    more = {"load": {"lowest": round(min(load), 1), "highest": round(max(load), 1)}, "kind": "CPU"}
    if options.what != "leaks":
        more["rival"] = next(s.requires for s in SYSTEMS if s.name == "ipyparallel")
    if not options.no_record:
        libraries = ("torch", "ipykernel", "jupyter_client")
        print(write(f"live_{options.what}", about, rows, libraries, **more))
    if options.what == "leaks" and (more := grown(rows)):
        raise SystemExit(f"there is more of these after {options.repeats} starts: {more}")


if __name__ == "__main__":
    main()
