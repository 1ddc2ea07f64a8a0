"""What one process asks of the file system while it imports torch.

    python -m benchmarks.start_up

Writes book/results/start_up-cpu-N.json, N the number of cores. Linux, with strace installed, which
counts the calls; they do not depend on what else runs. The seconds are those of a warm import
without strace.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import show
from benchmarks.record import check_repeats, summary, write

PROGRAMS = ("nothing", "torch", "rankbook.programs.pipe_ddp")
CALL = re.compile(r'^(?:\d+ +)?(\w+)\((?:AT_FDCWD, |\d+, )?"([^"]*)"')
OPENS = {"open", "openat", "execve"}
# the last thing a process does: bytes it has read, bytes of mapped files that it has touched
COUNT = """
read = int(open("/proc/self/io").readline().split()[1])
touched, in_file = 0, False
for line in open("/proc/self/smaps"):
    words = line.split()
    if "-" in words[0] and not words[0].endswith(":"):
        in_file = words[-1].startswith("/")
    elif words[0] == "Rss:" and in_file:
        touched += 1024 * int(words[1])
print(read + touched)
"""
TIME = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
WHAT = (
    "What importing asks of the file system, in one process. opens: calls that open a file, found "
    "or not; calls: all that name a file; names: different paths among them; read MB: bytes read "
    "and bytes of mapped libraries that were touched; the times are of an import from warm memory"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Count what an import asks of the file system.")
    parser.add_argument("--repeats", type=int, default=9, help="timed imports of each (9)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if not shutil.which("strace"):
        parser.error("strace is not installed, and nothing else counts the calls; install strace")
    rows = [row_of(program, options.repeats) for program in PROGRAMS]
    more = {"kind": "CPU", "environment_bytes": environment_bytes()}
    cores = len(os.sched_getaffinity(0))
    print(write(f"start_up-cpu-{cores}", WHAT, rows, libraries=("torch", "numpy"), **more))
    show(*rows)


def row_of(program: str, repeats: int) -> dict:
    """One import: its calls and bytes, and how long it takes."""
    code = "pass" if program == "nothing" else f"import {program}"
    seconds = [float(run([sys.executable, "-c", TIME.format(code)])) for _ in range(repeats)]
    with tempfile.NamedTemporaryFile("r") as file:  # the imports above have written the .pyc files
        run(["strace", "-f", "-o", file.name, "-e", "trace=file", sys.executable, "-c", code])
        calls = count(file)
    nbytes = int(run([sys.executable, "-c", f"{code}\n{COUNT}"]))
    return (
        {"import": program}
        | calls
        | {"read MB": round(nbytes / 1e6, 1), "unit": "s"}
        | summary(seconds, unit=1)
    )


def count(lines) -> dict[str, int]:
    """Of lines of strace: calls that open, all calls that name a file, different names."""
    found = [match.groups() for match in map(CALL.match, lines) if match]
    opens = sum(name in OPENS for name, _ in found)
    return {"opens": opens, "calls": len(found), "names": len({path for _, path in found})}


def run(words: list[str]) -> str:
    """What a command says. Raises CalledProcessError if it fails."""
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout


def environment_bytes() -> int:
    """Bytes of all files of this Python's environment, as a copy of it would have."""
    files = (path for path in Path(sys.prefix).rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())


if __name__ == "__main__":
    main()
