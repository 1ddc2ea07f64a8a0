"""How long the last of many readers of a large text file waits for its first line.

    python -m benchmarks.lines                  1 GB, 16 ranks x 10 loader workers
    python -m benchmarks.lines --folder DIR     the file is made (and removed) there

Writes book/results/lines-160.json: `rankbook.data.ShardedLines` beside the fourth original's way,
which counts the lines first and has each reader skip the lines before its own. The file lies in
memory, so that no disk is timed. Nothing else should run on the machine meanwhile.
"""

import argparse
import math
import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

from benchmarks.record import check_repeats, load_average, summary, write
from rankbook.data import Reader, ShardedLines

ORIGINAL, OURS, SHUFFLED = "readline from the start", "byte ranges", "byte ranges, shuffled"
WHAT = (
    "The last of {readers} readers ({ranks} ranks x {workers} loader workers) of a text file of "
    "{size} in {lines:,} lines: milliseconds until it can begin (counting the lines included, "
    "where that is needed), until its first line, and until its whole share, all from one start. "
    "The file has just been written and lies in memory: the best case for reading all of it"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = load_average()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, "lines.txt")
        lines = make(path, options.megabytes)
        seconds = measure(path, lines, options.ranks, options.workers, options.repeats)
    rows = [
        dict(zip(("way", "until"), key, strict=True)) | {"unit": "ms"} | summary(times)
        for key, times in seconds.items()
    ]
    readers = options.ranks * options.workers
    about = {"ranks": options.ranks, "workers": options.workers, "readers": readers}
    size = f"{options.megabytes / 1000:g} GB"
    what = WHAT.format(size=size, lines=lines, **about)
    about |= {"megabytes": options.megabytes, "lines": lines, "load": load}
    path = write(f"lines-{readers}", what, rows, libraries=("torch",), kind="CPU", **about)
    for row in rows:
        print("{way:24} {until:18} {median:10.2f} ms ({p10} to {p90})".format(**row))
    print(path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time the first line of the last reader.")
    parser.add_argument("--megabytes", type=float, default=1000, help="of the file (1000)")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--workers", type=int, default=10, help="loader workers of a rank (10)")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--folder", type=Path, help="where the file is made, and removed")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if min(options.megabytes, options.ranks, options.workers) <= 0:
        parser.error("--megabytes, --ranks and --workers have to be more than 0")
    if options.folder and not options.folder.is_dir():
        parser.error(f"--folder: there is no folder {options.folder}")
    free = shutil.disk_usage(options.folder or tempfile.gettempdir()).free / 1e6
    if free < options.megabytes * 1.1:
        parser.error(f"there is room for {free:,.0f} MB only; use --folder or fewer --megabytes")
    return options


def make(path: Path, megabytes: float) -> int:
    """Write a file of that size; return how many lines it has."""
    draw = random.Random(0)
    lengths = [draw.randrange(20, 181) for _ in range(1000)]
    text = b"".join(b"%04d %s\n" % (i, b"x" * (n - 6)) for i, n in enumerate(lengths))
    copies = max(1, round(megabytes * 1e6 / len(text)))
    with path.open("wb") as file:
        file.writelines(repeat(text, copies))
    return copies * len(lengths)


def measure(path: Path, lines: int, ranks: int, workers: int, repeats: int) -> dict:
    """Seconds by (way, until what), each `repeats` times, in turn; all from the way's start."""
    reader = Reader(ranks - 1, ranks, workers - 1, workers)
    ways = {
        ORIGINAL: lambda: original(path, count(path), reader),
        OURS: lambda: ours(path, reader, shuffle=False),
        SHUFFLED: lambda: ours(path, reader, shuffle=True),
    }
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for way, run in ways.items():
            for until, waited in waits(run).items():
                seconds.setdefault((way, until), []).append(waited)
    return seconds


def waits(run: Callable[[], Iterator[str]]) -> dict[str, float]:
    """Seconds from the call of `run` until there are lines to ask for, the first, and the last."""
    start = time.perf_counter()
    share = run()
    marks = {"it can begin": time.perf_counter() - start}
    next(share)
    marks["first line"] = time.perf_counter() - start
    deque(share, maxlen=0)
    marks["whole share"] = time.perf_counter() - start
    return marks


def original(path: Path, lines: int, reader: Reader) -> Iterator[str]:
    """The share of `reader` as the original reads it: all lines before it are read, too."""
    share = math.ceil(lines / reader.count)
    with path.open(encoding="utf-8") as file:
        for _ in range(reader.index * share):
            file.readline()
        for _ in range(min(share, lines - reader.index * share)):  # the original has no such end
            yield file.readline().strip()


def ours(path: Path, reader: Reader, shuffle: bool) -> Iterator[str]:
    """The share of `reader`, the dataset's making included."""
    return ShardedLines(path, shuffle=shuffle).iterate(reader)


def count(path: Path) -> int:
    """The number of lines, as the original finds it."""
    with path.open(encoding="utf-8") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    main()
