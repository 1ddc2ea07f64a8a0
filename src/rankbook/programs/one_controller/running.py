"""Each fault under each way, one process after the other.

python -m rankbook.programs.one_controller --fault raises --way careful
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.one_controller.faults import CAUSES, FAULTS, WAYS, sentences, verdict
from rankbook.programs.one_controller.reading import shorten
from rankbook.programs.options import Parser

CASE = "rankbook.programs.one_controller.case"
LIMIT = 120.0  # seconds that a case may take
ABSENT = (
    "Monarch is not here; `pip install torchmonarch` brings it on Linux, and "
    "book/results/one_controller-cpu-2.json has what it said elsewhere"
)


def is_here() -> bool:
    """Whether Monarch is installed."""
    return importlib.util.find_spec("monarch") is not None


def main(arguments: list[str] | None = None) -> None:
    """Try what the command line says; print a JSON line for each case."""
    p = Parser(
        prog="python -m rankbook.programs.one_controller",
        description="An all_reduce on two ranks under Monarch, and faults of rank 1.",
    )
    p.add_argument("--fault", nargs="+", default=FAULTS, choices=FAULTS, help="all by default")
    p.add_argument("--way", nargs="+", default=WAYS, choices=WAYS, help="both by default")
    with exit_on_user_error("one_controller"):
        options = p.parse_args(sys.argv[1:] if arguments is None else arguments)
        for row in try_faults(options.fault, options.way):
            print(json.dumps(row), flush=True)


def try_faults(
    faults: Iterable[str] = FAULTS, ways: Iterable[str] = WAYS, python: str = sys.executable
) -> Iterator[dict]:
    """One row for each fault and way: what the controller said, and whether the ranks work then.

    Each runs in a process of its own, on this machine's loopback. python: the one that has
    Monarch. Raises ImportError without Monarch, RuntimeError for a case that cannot be tried.
    """
    if python == sys.executable and not is_here():
        raise ImportError(ABSENT)
    here = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    for fault in faults:
        for way in ways:
            command = [python, "-m", CASE, way, fault]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, env=os.environ | here
            )
            yield row_of(fault, way, done.stdout, done.stderr)


def row_of(fault: str, way: str, out: str, printed: str) -> dict:
    """A case's JSON line, with the lines on the screen that have to do with the cause."""
    lines = [line for line in out.splitlines() if line.startswith('{"fault"')]
    if not lines:
        last = (printed.strip().splitlines() or ["no output"])[-1]
        raise RuntimeError(f"one_controller: {fault}, {way} did not end as it should: {last}")
    row = json.loads(lines[-1])
    row["said"] = [shorten(line) for line in row["said"]]
    row["printed"] = about(fault, printed.splitlines())
    row["seen"] = verdict(fault, row["said"] + row["printed"])
    return row


def about(fault: str, lines: list[str]) -> list[str]:
    """The sentences on the cause, each once; not the source line that raises it."""
    found = (s for s in sentences(lines) if re.search(CAUSES[fault], s) and "raise " not in s)
    return list(dict.fromkeys(map(shorten, found)))
