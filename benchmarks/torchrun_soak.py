"""Many warm launches of ``%%torchrun`` in a row, by turns with 2 and 4 ranks: is one ever lost?

    python -m benchmarks.torchrun_soak [--launches 300] [--cold-every 30]

A launch is lost if its cell fails or takes more than 60 s, if its all_reduce gives a wrong sum, if
it had to fall back to a cold start, or if a process of it stays. Now and then a cold launch runs,
to be timed under the same load.
"""

import argparse
import collections
import os

from benchmarks.record import summary, write
from tests.live.kernel import Notebook, Result
from tests.live.torchrun_cells import left_of_launches, open_notebook

PROGRAM = """import torch, torch.distributed as dist, rankbook
dist.init_process_group("gloo")
total = torch.ones(1000)
dist.all_reduce(total)
rankbook.publish(total=total.sum().item())
dist.destroy_process_group()
"""
LIMIT = 60.0  # seconds


def launch(notebook: Notebook, ranks: int, options: str = "") -> tuple[Result | None, str]:
    """One launch, and why it is lost ("" if it is not)."""
    try:
        result = notebook.run(f"%%torchrun --nproc-per-node {ranks} {options}\n{PROGRAM}", LIMIT)
    except TimeoutError as error:
        return None, f"stalled: {error}"
    if result.error:
        return result, result.error
    if "cold" in result.text:
        return result, result.text
    if f"[0-{ranks - 1}] total={1000.0 * ranks}" not in result.text:
        return result, f"wrong sum: {result.text}"
    if left := left_of_launches(notebook):
        return result, f"processes left: {left}"
    return result, ""


def main() -> None:
    """Run, and write ``book/results/torchrun_soak.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=300)
    parser.add_argument("--cold-every", type=int, default=30)
    arguments = parser.parse_args()
    seconds, lost, load = collections.defaultdict(list), [], []
    with open_notebook() as notebook:
        first, why = launch(notebook, 2)
        if why:
            raise SystemExit(f"the first launch was lost: {why}")
        for number in range(1, arguments.launches + 1):
            ranks = 2 if number % 2 else 4
            result, why = launch(notebook, ranks)
            if result is not None:
                seconds["warm", ranks].append(result.seconds)
            if why:
                lost.append({"launch": number, "ranks": ranks, "why": why})
                print(number, ranks, why, flush=True)
            if result is None:
                break
            if number % arguments.cold_every == 0:
                for ranks in (2, 4):
                    result, why = launch(notebook, ranks, "--cold")
                    if why:
                        raise SystemExit(f"a cold launch was lost: {why}")
                    seconds["cold", ranks].append(result.seconds)
                load.append(os.getloadavg()[0])
                print(number, "launches,", len(lost), "lost, load", load[-1], flush=True)
    report(seconds, first.seconds, number, lost, load)


def report(seconds: dict, first: float, launches: int, lost: list, load: list[float]) -> None:
    """Write the result file, and print it."""
    rows = [
        {"start": start, "ranks": ranks}
        | summary(times, unit=1.0)
        | {"longest": round(max(times), 3)}
        for (start, ranks), times in sorted(seconds.items())
    ]
    path = write(
        "torchrun_soak",
        "seconds from a %%torchrun cell's start to its end: a process group, one all_reduce",
        rows,
        first_warm_launch=round(first, 3),
        launches=launches,
        lost=lost,
        load_average={"lowest": min(load, default=0.0), "highest": max(load, default=0.0)},
    )
    print(path.read_text())


if __name__ == "__main__":
    main()
