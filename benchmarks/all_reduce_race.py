"""Race four ways to all_reduce, against what the alpha-beta model foretells, and record it.

python -m benchmarks.all_reduce_race

Writes book/results/all_reduce_race-KIND.json. For every number of ranks, the four ways take turns
at every size. alpha and beta come from a ping-pong between two ranks, measured before and after the
race, and from nothing of the race itself. Uses a GPU a rank and nccl where there are enough GPUs,
the CPU and gloo otherwise. Nothing else should run on the machine meanwhile; 8 ranks take 4 GB.
"""

import argparse
import statistics

import torch
import torch.distributed as dist

from benchmarks.all_reduce import AUTO
from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import summary, write
from rankbook.comm.all_reduce import fit_alpha_beta, predict, time_messages, time_ping_pong
from rankbook.comm.all_reduce.alpha_beta import WAYS
from rankbook.comm.all_reduce.by_rank_0 import all_reduce_by_rank_0
from rankbook.comm.all_reduce.halving_doubling import halving_doubling_all_reduce
from rankbook.comm.all_reduce.ring import ring_all_reduce

RANKS = tuple(range(2, 9))
SIZES = [2**k for k in (3, 6, 9, 12, 15, 18, 20, 22, 24, 26)]  # 8 B to 64 MiB
FUNCTIONS = (all_reduce_by_rank_0, ring_all_reduce, halving_doubling_all_reduce, dist.all_reduce)
WHAT = (
    "Four ways to all_reduce float32, by turns: microseconds until the slowest rank is done, and "
    "what alpha and beta of a ping-pong between two ranks foretell; the error is the prediction's, "
    "in per cent of the measured median"
)


def main() -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Race four ways to all_reduce.")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--repeats", type=int, default=20, help="of a small message (20)")
    options = parser.parse_args()
    if min(options.ranks) < 2 or options.repeats < 6:
        parser.error("--ranks: an all_reduce needs at least 2; --repeats: 6 or more")
    repeats = repeats_of(options.repeats)
    more = about(max(options.ranks), "auto")
    del more["ranks"]  # each row has its own
    pings = [on_ranks(2, ping_pong, repeats, **AUTO)]
    races = {n: on_ranks(n, race, repeats, **AUTO) for n in options.ranks}
    pings.append(on_ranks(2, ping_pong, repeats, **AUTO))
    fits = [fit(ping) for ping in pings]
    alpha, beta = fit([torch.cat(both) for both in zip(*pings, strict=True)])
    rows = [row for n, times in races.items() for row in rows_of(n, times, alpha, beta)]
    more["link"] = {"alpha_seconds": alpha, "beta_seconds_per_byte": beta}
    more["link_before_and_after"] = [
        {"alpha_seconds": a, "beta_seconds_per_byte": b} for a, b in fits
    ]
    more["ping_pong"] = [
        {"bytes": size} | summary(torch.cat(both).tolist(), unit=1e6)
        for size, *both in zip(SIZES, *pings, strict=True)
    ]
    more["side_by_side"] = "way"
    write(f"all_reduce_race-{more['kind'].lower()}", WHAT, rows, libraries=("torch",), **more)
    for row in rows:
        print("{ranks} {bytes:>10,} B {way:<21}{median:>9.0f} µs {error:>+6.0f} %".format(**row))
    for a, b in [*fits, (alpha, beta)]:
        print(f"alpha = {a * 1e6:.0f} µs, 1 / beta = {1e-9 / b:.2f} GB/s")


def repeats_of(most: int) -> dict[int, int]:
    """How often for each size: `most` for the small ones, less where a message takes long."""
    share = {2**20: 2, 2**22: 2, 2**24: 3, 2**26: 4}
    return {size: most // share.get(size, 1) for size in SIZES}


def ping_pong(here: Here, repeats: dict[int, int]) -> list[torch.Tensor]:
    """One rank of two: `time_ping_pong`."""
    return time_ping_pong(repeats, here.device)


def race(here: Here, repeats: dict[int, int]) -> dict[str, list[torch.Tensor]]:
    """One rank of several: all four ways, by turns."""
    return time_messages(dict(zip(WAYS, FUNCTIONS, strict=True)), repeats, here.device)


def fit(ping: list[torch.Tensor]) -> tuple[float, float]:
    """alpha (s) and beta (s/byte) of one message, from the medians of a ping-pong."""
    medians = [statistics.median(times.tolist()) for times in ping]
    return fit_alpha_beta(torch.tensor(SIZES), torch.tensor(medians))


def rows_of(n: int, times: dict[str, list[torch.Tensor]], alpha: float, beta: float) -> list[dict]:
    """One row for each size and way: measured, predicted, and the error in per cent."""
    rows = []
    for i, size in enumerate(SIZES):
        for way in WAYS:
            row = {"ranks": n, "bytes": size, "way": way}
            row |= summary(times[way][i].tolist(), unit=1e6)
            row["predicted"] = round(predict(way, n, size, alpha, beta) * 1e6, 3)
            row["error"] = round(100 * (row["predicted"] / row["median"] - 1), 1)
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
