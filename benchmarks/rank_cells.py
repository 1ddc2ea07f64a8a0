"""How long a cell on live ranks takes, and how long it takes to have live ranks, against others.

    python -m benchmarks.rank_cells [--repeats 50] [--starts 5]

Needs ipyparallel 9.2.0 and nbdistributed 0.1.0 besides requirements.txt. Every system runs in a
notebook kernel of its own; all are timed in turn, so that a busy moment hits each of them.
"""

import argparse
import os
import statistics
import sys
import time

from benchmarks.record import summary, write
from tests.live.kernel import Notebook

REDUCE = "dist.all_reduce(t)"

START = {
    "%%ranks": ["%load_ext rankbook", "%ranks start -n {n}", "%%ranks\nt = torch.ones(1)"],
    "ipyparallel %%px": [
        "import ipyparallel, os, socket\n"
        "cluster = ipyparallel.Cluster(n={n}, log_level=40)\n"
        "clients = cluster.start_and_connect_sync()\n"
        "probe = socket.socket(); probe.bind(('127.0.0.1', 0)); port = probe.getsockname()[1]\n"
        "probe.close()\n"
        "def tell(rank, n, port):\n"
        "    import os\n"
        "    os.environ.update(RANK=str(rank), WORLD_SIZE=str(n), MASTER_ADDR='127.0.0.1',\n"
        "        MASTER_PORT=str(port), GLOO_SOCKET_IFNAME='lo', OMP_NUM_THREADS='1')\n"
        "for rank, i in enumerate(sorted(clients.ids)):\n"
        "    clients[i].apply_sync(tell, rank, {n}, port)",
        "%%px\nimport torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo'); t = torch.ones(1)",
    ],
    # its magic returns before the ranks are there, and cells sent until then are lost
    "nbdistributed": [
        "%load_ext nbdistributed",
        "%dist_init -n {n}",
        "import time; time.sleep(20)",
        "%dist_mode -d",
        "%%distributed\nimport torch, torch.distributed as dist\nt = torch.ones(1)",
    ],
}
MAGIC = {"%%ranks": "%%ranks", "ipyparallel %%px": "%%px", "nbdistributed": "%%distributed"}


def run(notebook: Notebook, code: str) -> float:
    """Run a cell that must succeed; return its seconds."""
    result = notebook.run(code, timeout=180)
    if result.error:
        raise RuntimeError(f"{code}\n{result.error}")
    return result.seconds


def start(system: str, n: int) -> tuple[Notebook, float]:
    """A fresh kernel with a group of `n` ranks; the seconds until its first all_reduce was done."""
    path = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"  # nbdistributed starts "python"
    notebook = Notebook(env={"OMP_NUM_THREADS": "1", "PATH": path})
    began = time.monotonic()
    for cell in START[system]:
        run(notebook, cell.replace("{n}", str(n)))
    # The sum is asked for: nbdistributed prints its errors, and the cell counts as well done.
    result = notebook.run(f"{MAGIC[system]}\n{REDUCE}\nprint(f'sum={{int(t)}}')", timeout=180)
    if f"sum={n}" not in result.text:
        raise RuntimeError(f"{system} has no working group: {result.text}{result.error}")
    return notebook, time.monotonic() - began


def cells(n: int, repeats: int) -> list[dict]:
    """Cell round trips at `n` ranks: one row for each system and cell."""
    notebooks = {"a plain cell": Notebook()} | {s: start(s, n)[0] for s in START}
    times: dict[tuple[str, str], list[float]] = {}
    try:
        for _ in range(repeats):
            for system, notebook in notebooks.items():
                magic = MAGIC.get(system)
                times.setdefault((system, "trivial"), []).append(
                    run(notebook, f"{magic}\npass" if magic else "pass")
                )
                if magic:
                    seconds = run(notebook, f"{magic}\n{REDUCE}")
                    times.setdefault((system, "all_reduce"), []).append(seconds)
    finally:
        for notebook in notebooks.values():
            notebook.__exit__()
    plain = statistics.median(times["a plain cell", "trivial"])
    return [
        {"ranks": n, "system": system, "cell": cell, "unit": "ms", **summary(t),
         "times a plain cell": round(statistics.median(t) / plain, 2)}
        for (system, cell), t in times.items()
    ]  # fmt: skip


def starts(n: int, repeats: int) -> list[dict]:
    """Time from a fresh kernel to the first completed all_reduce."""
    systems = [s for s in START if s != "nbdistributed"]
    times: dict[str, list[float]] = {s: [] for s in systems}
    for _ in range(repeats):
        for system in systems:
            notebook, seconds = start(system, n)
            times[system].append(seconds)
            notebook.__exit__()
    return [
        {"ranks": n, "system": s, "cell": "start", "unit": "s", **summary(t, unit=1.0)}
        for s, t in times.items()
    ]


def main() -> None:
    """Measure and write book/results/rank_cells.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for n in (2, 4):
        rows += cells(n, options.repeats) + starts(n, options.starts)
    what = "Round trip of a cell, and time from a fresh kernel to the first completed all_reduce"
    libraries = ("torch", "ipykernel", "jupyter_client", "ipyparallel", "nbdistributed")
    print(write("rank_cells", what, rows, libraries))
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
