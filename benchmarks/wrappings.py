"""Record what every data-parallel wrapping does under every pipeline schedule.

python -m benchmarks.wrappings

Writes book/results/wrappings-cpu-4.json. No times are measured: the machine may be busy. The test
tests/distributed/test_wrappings.py makes the same trials and knows what has to come out.
"""

import os
import sys
import tempfile
import textwrap

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.record import write

WHAT = (
    "Gradients of a pipeline of 2 ranks with 2 replicas, in each data-parallel wrapping, beside "
    "the unsplit model's, in two training steps: the relative error in the first that was wrong, "
    "or the last"
)


def main() -> None:
    """Try all, print one line each, and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(try_all, (folder,), nprocs=4, start_method="spawn")
        rows = torch.load(f"{folder}/rows", weights_only=True)
    write("wrappings-cpu-4", WHAT, rows, libraries=("torch",), kind="CPU")
    for row in rows:
        print("{schedule:16} {wrapping:24} {verdict:15} {error:8.1e} {message}".format(**row))


def try_all(rank: int, folder: str) -> None:
    """One of four ranks; rank 0 writes the rows."""
    from rankbook.parallel import WRAPPINGS, schedule_names, try_wrapping

    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": 4}
    dist.init_process_group("gloo", **where)
    rows = [vars(try_wrapping(s, w)) for s in schedule_names() for w in WRAPPINGS]
    if rank == 0:
        for row in rows:
            row["error"] = float(f"{row['error']:.3g}")
            row["message"] = textwrap.shorten(row["message"], 100, placeholder=" ...")
        torch.save(rows, f"{folder}/rows")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
