"""How long until torch is imported on several nodes that share one slow file server.

    python -m benchmarks.start_up_nodes

Writes book/results/start_up_nodes-cpu-N.json, N the number of cores. Linux and root, with strace,
sshfs, sftp-server and mksquashfs. A node is a mount of its own of the server's files, so it has
caches of its own; its ranks share them. The server is slow by a known measure (slow_server.Speed).
Everything happens in a mount namespace, which takes the mounts along when it ends.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import show
from benchmarks.lean_environment import build, pack, python
from benchmarks.record import check_repeats, load_average, summary, write
from benchmarks.slow_server import SERVER, SlowServer, Speed
from benchmarks.start_up import COUNT, TIME, count, run

SHAPES = ((1, 1), (1, 4), (2, 2), (4, 1))  # nodes, ranks on each
TOOLS = ("unshare", "strace", "sshfs", "mksquashfs", SERVER)
INSIDE = "RANKBOOK_START_UP_INSIDE"
LONG = 600  # seconds for which a node takes what it was told of a name for true
IMPORT = "import os, torch; os._exit(0)"
WHAT = (
    "Until the last rank has imported torch, on nodes that share one file server. shared: from the "
    "files as they are; copied: each node first unpacks one tar to its memory; image: each node "
    "mounts one file of squashfs. questions: what the server was asked, reads apart; MB: what it "
    "sent. All ranks share these cores; the server's speed is set, in `speed`"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Time the import of torch on several nodes.")
    parser.add_argument("--repeats", type=int, default=5, help="starts of each (5)")
    parser.add_argument("--latency", type=float, default=Speed.latency, help="seconds (0.0005)")
    parser.add_argument("--name", default="start_up_nodes", help="of the result's file")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if reason := why_not():
        parser.error(reason)
    if INSIDE not in os.environ:
        words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        words += [sys.executable, "-m", "benchmarks.start_up_nodes", *sys.argv[1:]]
        raise SystemExit(subprocess.run(words, env=os.environ | {INSIDE: "1"}).returncode)
    with tempfile.TemporaryDirectory(prefix="start_up-") as folder:
        measure(Path(folder), options)


def why_not() -> str:
    """What is missing for it; "" if nothing is."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return "" if os.geteuid() == 0 else "only root can mount; run it as root"


def measure(folder: Path, options: argparse.Namespace) -> None:
    """All of it, below `folder`."""
    words = build(folder / "environment")
    pack(folder / "environment")
    one = one_process(words)
    speed = Speed(latency=options.latency)
    cluster = Nodes(folder, SlowServer(speed))
    alone = cluster.one_at_a_time()
    turns = [
        {(shape, way): cluster.start(way, *shape) for shape in SHAPES for way in WAYS}
        for _ in range(options.repeats)
    ]
    rows = [row_of(case, [turn[case] for turn in turns]) for case in turns[0]]
    cores = len(os.sched_getaffinity(0))
    size = sum(p.lstat().st_size for p in (folder / "environment").rglob("*"))
    about = {"kind": "CPU", "cores": cores, "speed": asdict(speed), "one_process": one}
    about |= {
        "one_at_a_time": alone,
        "environment_bytes": size,
        "load": load_average(),
    }
    print(write(f"{options.name}-cpu-{cores}", WHAT, rows, libraries=("torch", "numpy"), **about))
    show(*rows)


def one_process(words: list[str]) -> dict:
    """What an import asks of the file system, by strace, and its seconds from warm memory."""
    timed = [float(run([*words, "-c", TIME.format("import torch")])) for _ in range(5)]
    with tempfile.NamedTemporaryFile("r") as file:
        run(["strace", "-f", "-o", file.name, "-e", "trace=file", *words, "-c", IMPORT])
        calls = count(line for line in file if "/environment/" in line)
    nbytes = int(run([*words, "-c", f"import torch\n{COUNT}"]))
    return calls | {"read MB": round(nbytes / 1e6, 1)} | summary(timed[1:], unit=1)


def row_of(case: tuple, found: list[dict]) -> dict:
    """Medians over the runs of a case, seconds with their spread."""
    (nodes, ranks), way = case
    middle = sorted(found, key=lambda each: each["seconds"])[len(found) // 2]
    row = {"way": way, "nodes": nodes, "ranks": ranks, "unit": "s"}
    row |= summary([each["seconds"] for each in found], unit=1)
    return row | {k: middle[k] for k in ("questions", "reads", "MB")}


class Nodes:
    """Nodes with a mount each, made anew for every start so that they remember nothing."""

    def __init__(self, folder: Path, server: SlowServer):
        self.folder, self.server = folder, server

    def start(self, way: str, nodes: int, ranks: int) -> dict:
        """Let all ranks import torch in that way: seconds, and what the server was asked."""
        places = [self._mount(number) for number in range(nodes)]
        self.server.reset()
        start = time.monotonic()
        with ThreadPoolExecutor(nodes) as pool:
            list(pool.map(lambda place: self._on(place, way, ranks), places))
        seconds = time.monotonic() - start
        asked = dict(self.server.counts)
        for place in places:
            self._leave(place)
        return {
            "seconds": seconds,
            "questions": asked.get("questions", 0),
            "reads": asked.get("reads", 0),
            "MB": round(asked.get("bytes", 0) / 1e6, 1),
        }

    def one_at_a_time(self, many: int = 400) -> dict[str, float]:
        """What one program on one node sees of the server's speed, nobody in its way: seconds of
        a question and of a small read, bytes a second of a long one."""
        folder = self._mount(0) / "shared"
        questions = timed(lambda i: (folder / f"absent-{i}").exists(), many)
        tar = os.open(folder / "environment.tar", os.O_RDONLY)
        os.posix_fadvise(tar, 0, 0, os.POSIX_FADV_RANDOM)
        reads = timed(lambda i: os.pread(tar, 4096, (i + 1) << 20), many)
        os.posix_fadvise(tar, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        long = timed(lambda i: os.pread(tar, 1 << 20, (i + many + 8) << 20), 100)
        os.close(tar)
        self._leave(folder.parent)
        return {"question": questions, "read": reads, "bandwidth": round((1 << 20) / long)}

    def _mount(self, number: int) -> Path:
        place = self.folder / f"node{number}"
        for name in ("shared", "own"):
            (place / name).mkdir(parents=True, exist_ok=True)
        remembers = ("entry", "attr", "negative", "dcache")
        options = [f"directport={self.server.port}", "ro", "auto_cache"]
        options += [f"{what}_timeout={LONG}" for what in remembers]
        source = f"localhost:{self.folder}"
        run(["sshfs", "-o", ",".join(options), source, str(place / "shared")])
        run(["mount", "-t", "tmpfs", "node", str(place / "own")])
        return place

    def _on(self, place: Path, way: str, ranks: int) -> None:
        words = [*python(WAYS[way](place)), "-c", IMPORT]
        started = [subprocess.Popen(words) for _ in range(ranks)]
        codes = [each.wait(timeout=300) for each in started]
        if any(codes):
            raise RuntimeError(f"{way}: a rank could not import torch; see its error above")

    def _leave(self, place: Path) -> None:
        if (place / "own" / "image").is_mount():
            run(["umount", str(place / "own" / "image")])
        for name in ("own", "shared"):
            run(["umount", str(place / name)])


def timed(work, many: int) -> float:
    """Mean seconds of `work` with 0, 1, ... up to `many`, one after the other."""
    start = time.monotonic()
    for number in range(many):
        work(number)
    return round((time.monotonic() - start) / many, 6)


def shared(place: Path) -> Path:
    """The environment as the server has it."""
    return place / "shared" / "environment"


def copied(place: Path) -> Path:
    """The environment in the node's own memory, where it has been unpacked to."""
    run(["tar", "-C", str(place / "own"), "-xf", str(place / "shared" / "environment.tar")])
    return place / "own"


def image(place: Path) -> Path:
    """The environment in a file system that is one file of the server's."""
    (place / "own" / "image").mkdir()
    file = place / "shared" / "environment.squashfs"
    run(["mount", "-o", "loop,ro", "-t", "squashfs", str(file), str(place / "own" / "image")])
    return place / "own" / "image"


WAYS = {"shared": shared, "copied": copied, "image": image}

if __name__ == "__main__":
    main()
