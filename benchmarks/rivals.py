"""Twelve faults on two ranks, under each system that runs a cell on every rank.

    python -m benchmarks.rivals [--repeats 3] [--limit 35] [--lanes 2] [--log NAME] [--commit C]

Writes book/results/rivals.json, after each case: one line of the log is one case, and a run with
the log of another goes on where that one ended. The rivals are installed into environments of
their own. Linux. nbdistributed opens a port on all interfaces and reads pickles from it: it runs
only while its case does, and everything that a case started is killed at its end.
"""

import argparse
import collections
import contextlib
import io
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, check_repeats, summary, write
from benchmarks.rival_case import BUSY, DEAD, run_case
from benchmarks.rival_faults import FAULTS, TIMEOUT, judge, shown
from benchmarks.rival_systems import SYSTEMS, install
from rankbook.core.atomic import write_text_atomic

WHAT = (
    "The same cell with a fault on 2 CPU ranks under each system: what a reader sees of the cause, "
    "and seconds until the next cell can be run, from the cell's start, or from the interrupt. "
    "right: cause and rank come first; among others: shown, but another cause is raised or stands "
    "first; wrong: only what a victim or a time-out says; nothing: no cause at all. failed: the "
    "cell counts as failed; next: the next cell gives the right sum; left: processes that outlive "
    "a killed kernel. gloo's time-out is {timeout} s where a system lets one set it; a cell is "
    "given up after {limit:g} s"
)
BY_NAME = {fault.name: fault for fault in FAULTS}
ORDER = ("right", "among others", "wrong", "nothing")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=35.0, help="seconds; then there is no end")
    parser.add_argument("--lanes", type=int, default=2, help="cases at a time (2)")
    parser.add_argument("--log", help="a file of the temporary folder; goes on with what it has")
    parser.add_argument("--commit", help="of this project (default: the tree as it is)")
    parser.add_argument("--systems", nargs="+", choices=[s.name for s in SYSTEMS])
    parser.add_argument("--faults", nargs="+", choices=[f.name for f in FAULTS])
    parser.add_argument("--environments", type=Path, help="where the rivals are installed")
    parser.add_argument("--judge", action="store_true", help="judge the log anew, and no more")
    parser.add_argument("--no-record", action="store_true", help="write the log only")
    options = parser.parse_args(arguments)
    if not options.no_record:
        check_repeats(parser, options.repeats)
    if options.limit <= TIMEOUT or options.lanes < 1:
        parser.error(f"--limit has to be above gloo's time-out of {TIMEOUT} s, --lanes 1 or more")
    return options


def source_of(commit: str, temporary: Path) -> Path:
    """A copy of this project's source at a commit. Raises CalledProcessError."""
    folder = Path(tempfile.mkdtemp(prefix="rankbook-", dir=temporary))
    words = ["git", "archive", "--format=tar", commit, "src"]
    tar = subprocess.run(words, check=True, capture_output=True, cwd=RESULTS.parent.parent)
    with tarfile.open(fileobj=io.BytesIO(tar.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read(log: Path) -> list[dict]:
    """The cases of a log, judged anew: they keep what was printed and raised."""
    cases = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return [c | {"sees": judge(BY_NAME[c["fault"]], c["text"], c["error"])} for c in cases]


def table(cases: list[dict]) -> list[dict]:
    """One row for each fault and system, in the order of both."""
    groups = collections.defaultdict(list)
    for case in cases:
        groups[case["fault"], case["system"]].append(case)
    keys = [(f.name, s.name) for f in FAULTS for s in SYSTEMS]
    return [_row(*key, groups[key]) for key in keys if key in groups]


def _row(fault: str, system: str, cases: list[dict]) -> dict:
    sees = collections.Counter(case["sees"] for case in cases)
    most = max(ORDER, key=lambda word: sees[word])
    row: dict[str, Any] = {"fault": fault, "system": system, "sees": most}
    row["agree"] = _share(case["sees"] == most for case in cases)
    if most in ORDER[:2]:  # until the cause was on the screen; what is raised is there at the end
        row["seen"] = round(statistics.median(map(_seen, cases)), 1)
    row["ended"] = _share(case["end"] != BUSY for case in cases)
    row["died"] = _share(case["end"] == DEAD for case in cases)
    row["failed"] = _share(case["failed"] for case in cases)
    row["next"] = _share(case["next"] for case in cases)
    row["left"] = int(statistics.median(case["left"] for case in cases))
    if ended := [case["seconds"] for case in cases if case["end"] != BUSY]:
        row |= {"unit": "s"} | summary(ended, unit=1)
    return row


def _seen(case: dict) -> float:
    at = shown(BY_NAME[case["fault"]], case["text"], case["marks"])
    return case["seconds"] if at is None else at


def _share(truths: Iterable[bool]) -> str:
    listed = list(truths)
    return f"{sum(listed)} of {len(listed)}"


@contextlib.contextmanager
def ends_early(pool: ThreadPoolExecutor):
    """Wait for the pool; on a signal, only for the cases that run."""
    try:
        yield
        pool.shutdown()
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise


def judge_anew(log: Path) -> Path:
    """Give the recorded result the rows of its log, judged by the rules of today."""
    path = RESULTS / "rivals.json"
    result = json.loads(path.read_text("utf-8")) | {"rows": table(read(log))}
    text = json.dumps(result, indent=1, ensure_ascii=False)
    return write_text_atomic(path, text + "\n")


class Run:
    """The cases that are still to do, in turn, and their log."""

    def __init__(self, options: argparse.Namespace, log: Path):
        self._options, self._log, self._lock = options, log, threading.Lock()
        self.absent: dict[str, str] = {}

    def do(self) -> None:
        """Install, and do what the log has not."""
        chosen = self._options.systems or [s.name for s in SYSTEMS]
        folder = self._options.environments or Path(tempfile.gettempdir(), "rankbook-rivals")
        pythons = {}
        for system in SYSTEMS:
            try:
                if system.name in chosen:
                    pythons[system.name] = install(system, folder)
            except (OSError, RuntimeError) as error:
                self.absent[system.name] = str(error)
        faults = [f for f in FAULTS if not self._options.faults or f.name in self._options.faults]
        cases = read(self._log) if self._log.exists() else []
        done = collections.Counter((case["fault"], case["system"]) for case in cases)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
        with ThreadPoolExecutor(self._options.lanes) as pool, ends_early(pool):
            repeats = range(self._options.repeats)
            for n, fault, system in itertools.product(repeats, faults, SYSTEMS):
                if system.name in pythons and done[fault.name, system.name] <= n:
                    pool.submit(self._one, system, fault, pythons[system.name])

    def _one(self, system, fault, python: str) -> None:
        try:
            case = run_case(system, fault, python, self._options.limit)
        except Exception as error:  # one case that cannot be started is none; the next go on
            print(f"{fault.name:24} {system.name:20} not measured: {error}", flush=True)
            return
        with self._lock:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(case.as_dict() | {"load": os.getloadavg()[0]}) + "\n")
            said = f"{case.sees:13} {case.end} {case.seconds:.1f} s, next {case.next}"
            print(f"{fault.name:24} {system.name:20} {said}, left {case.left}", flush=True)
            if not self._options.no_record:
                self.record()

    def record(self) -> Path:
        """Write what the log has."""
        cases = read(self._log)
        loads = [case["load"] for case in cases]
        load = {"lowest": round(min(loads), 1), "highest": round(max(loads), 1)}
        packages = ["torch", "ipykernel", "jupyter_client"]
        versions = {s.name: s.requires for s in SYSTEMS if s.requires}
        more = {"load": load, "systems": versions, "absent": self.absent, "kind": "CPU"}
        more |= {"limit": self._options.limit, "cases at a time": self._options.lanes}
        more["note"] = "nbdistributed listens on all interfaces and unpickles what it gets there"
        if self._options.commit:
            more["commit"] = self._options.commit
        what = WHAT.format(timeout=TIMEOUT, limit=self._options.limit)
        return write("rivals", what, table(cases), packages, **more)


def main() -> None:
    """Measure; record after each case."""
    options = parse()
    temporary = Path(tempfile.gettempdir())
    log = temporary / (options.log or f"rivals-{os.getpid()}.jsonl")
    print(f"log: {log}", flush=True)
    if options.judge:
        print(judge_anew(log))
        return
    if options.commit:
        os.environ["PYTHONPATH"] = str(source_of(options.commit, temporary) / "src")
    run = Run(options, log)
    run.do()
    if not options.no_record:
        print(run.record())


if __name__ == "__main__":
    main()
