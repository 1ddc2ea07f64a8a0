"""Time the library's all_reduce against message size: the line that the cost model starts from.

python -m benchmarks.all_reduce --ranks 2

Writes book/results/all_reduce-KIND-RANKS.json. Uses a GPU a rank and nccl where there are enough
GPUs, the CPU and gloo otherwise. Nothing else should run on the machine meanwhile.
"""

import argparse

import torch

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import summary, write
from rankbook.comm.all_reduce import fit_alpha_beta, time_all_reduce

SIZES = [2**k for k in range(3, 25)]  # 8 B to 16 MiB
AUTO = {"backend": "auto", "preload": ("torch.distributed",)}  # how the ranks are started
WHAT = "all_reduce of float32: microseconds until the slowest rank is done, against message size"


def main() -> None:
    """Measure, print one line a size, and write the result."""
    parser = argparse.ArgumentParser(description="Time all_reduce against message size.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    if options.ranks < 2:
        parser.error("--ranks: an all_reduce needs at least 2")
    more = about(options.ranks, "auto")
    seconds = on_ranks(options.ranks, measure, options.repeats, **AUTO)
    alpha, beta = fit_alpha_beta(torch.tensor(SIZES), seconds.median(dim=1).values)
    rows = [
        {"bytes": size} | summary(times.tolist(), unit=1e6)
        for size, times in zip(SIZES, seconds, strict=True)
    ]
    more["fit"] = {"alpha_seconds": alpha, "beta_seconds_per_byte": beta}
    name = f"all_reduce-{more['kind'].lower()}-{options.ranks}"
    write(name, WHAT, rows, libraries=("torch",), **more)
    for row in rows:
        print("{bytes:>10,} B {median:>9.0f} µs ({p10:.0f} to {p90:.0f})".format(**row))
    print(f"alpha = {alpha * 1e6:.0f} µs, beta = {beta * 1e9:.3f} s/GB")


def measure(here: Here, repeats: int) -> torch.Tensor:
    """One rank: time all sizes, float32 [sizes, repeats]."""
    return time_all_reduce(SIZES, repeats, here.device)


if __name__ == "__main__":
    main()
