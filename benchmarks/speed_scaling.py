"""DDP on several ranks: strong and weak scaling beside one process, and what predicts them.

    python -m benchmarks.speed_scaling --ranks 2

Writes book/results/speed_scaling-cpu-2.json, or speed_scaling-gpu-N.json with nccl where there is
a GPU for each of N ranks. On a CPU a rank has one thread, and one process is timed with one and
with as many as there are ranks. All ways and their parts take turns on the same texts. Nothing
else should run on the machine meanwhile.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn import functional as F

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import check_repeats, summary, write
from rankbook.comm.all_reduce import fit_alpha_beta, time_all_reduce
from rankbook.core.timing import one_process, time_interleaved
from rankbook.speed.batches import make_batch
from rankbook.speed.init_model import init_model
from rankbook.speed.sizes import size
from rankbook.speed.strategies import prepare
from rankbook.speed.strategies.scaling import Parts, efficiency, weak_efficiency
from rankbook.speed.tokenising import tokenised

ONE, STRONG, WEAK, THREADS = "one rank", "strong", "weak", "one process"
SIZES = [2**k for k in range(12, 25, 2)]  # bytes of an all_reduce, for its alpha and beta
WHAT = (
    "A training step (forward, backward, Adam) of the size cpu ({layers} layers of width {width}, "
    "packed reviews of IMDB, {rows} on one rank), by one process and by DDP on {ranks} ranks: "
    "strong scaling ({rows} rows in all) and weak ({rows} a rank); milliseconds of the slowest "
    "rank. predicted: forward and backward of a rank's rows, Adam, and the all_reduce by alpha "
    "and beta, each measured while the other ranks have nothing to do, and added up; busy: the "
    "first two measured on all ranks at once"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    more = about(options.ranks, "auto")
    tokenised(size("cpu"))  # kept in the cache: the ranks only read it
    found = on_ranks(options.ranks, measure, options, backend="auto")
    config = size("cpu").model
    what = WHAT.format(layers=config.layers, width=config.d_model, rows=options.rows,
                       ranks=options.ranks)  # fmt: skip
    rows = table(found, options)
    measured_alone = parts(found)
    more |= {name: found[name] for name in ("alpha", "beta", "parameters")}
    more |= {"parts": measured_alone}
    name = f"speed_scaling-{more['kind'].lower()}-{options.ranks}"
    path = write(name, what, rows, libraries=("torch",), **more)
    print(*rows, *measured_alone, path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time DDP against one process.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15, help="timed turns (15)")
    parser.add_argument("--rows", type=int, default=24, help="reviews of one rank's step (24)")
    options = parser.parse_args(arguments)
    if options.ranks < 2:
        parser.error(f"--ranks {options.ranks} has nobody to share with; use 2 or more")
    check_repeats(parser, options.repeats)
    if options.rows % options.ranks:
        parser.error(f"--rows {options.rows} cannot be shared by {options.ranks} ranks equally")
    return options


def measure(here: Here, options: argparse.Namespace) -> dict:
    """Seconds by way and by part, and the all_reduce's alpha and beta."""
    device = here.device
    ways = steps(options, device) | single_parts(options, device)
    seconds = time_interleaved(ways, options.repeats, device, warm_up=2, clock="slowest rank")
    sent = time_all_reduce(SIZES, options.repeats, device).median(dim=1).values
    alpha, beta = fit_alpha_beta(torch.tensor(SIZES), sent)
    model, _ = init_model(size("cpu"), attention="sdpa")
    return {
        "seconds": seconds,
        "alpha": alpha,
        "beta": beta,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def steps(options: argparse.Namespace, device: torch.device) -> dict[str, Callable]:
    """Whole optimizer steps: one rank; DDP at the same global batch, and at a larger one."""
    cpu, ranks = size("cpu"), options.ranks
    one, ddp = (
        prepare(name, init_model(cpu, attention="sdpa")[0], cpu.lr, device)
        for name in ("alone", "ddp")
    )
    same, larger = batch(options.rows), batch(options.rows * ranks)
    found = {
        ONE: one_process(lambda: one.step(same)),
        STRONG: lambda: ddp.step(same),
        WEAK: lambda: ddp.step(larger),
    }
    if device.type == "cpu":
        found[THREADS] = one_process(lambda: one.step(same), ranks)
    return found


def single_parts(options: argparse.Namespace, device: torch.device) -> dict[str, Callable]:
    """Forward and backward of some rows, and Adam: on one rank, on all, and with threads."""
    model = init_model(size("cpu"), attention="sdpa")[0].to(device)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)
    whole = batch(options.rows).to(device)
    share = batch(options.rows).share(dist.get_rank(), options.ranks).to(device)

    def gradients(of) -> None:
        adam.zero_grad()
        F.cross_entropy(model(*of.inputs), of.labels).backward()

    work = {"whole": lambda: gradients(whole), "share": lambda: gradients(share)}
    work["Adam"] = adam.step
    found = {f"{name}, idle": one_process(each) for name, each in work.items()}
    found |= {f"{name}, busy": each for name, each in work.items()}
    if device.type == "cpu":
        found |= {f"{k}, threads": one_process(work[k], options.ranks) for k in ("whole", "Adam")}
    return found


def batch(rows: int):
    """The first `rows` reviews as one packed batch."""
    reviews = tokenised(size("cpu"))["train"]
    return make_batch(reviews, list(range(rows)), "packed")


def table(found: dict, options: argparse.Namespace) -> list[dict]:
    """One row a way. "times one": reviews a second over those of one rank."""
    took = {name: statistics.median(seconds) for name, seconds in found["seconds"].items()}
    rows = []
    for way in (ONE, THREADS, STRONG, WEAK):
        if way not in took:
            continue
        reviews = options.rows * (options.ranks if way == WEAK else 1)
        row = {"way": way, "ranks": options.ranks if way in (STRONG, WEAK) else 1}
        row |= {"threads": options.ranks if way == THREADS else 1, "rows": reviews, "unit": "ms"}
        row |= summary(found["seconds"][way])
        row |= {how: round(1e3 * t, 1) for how, t in predictions(way, found, options).items()}
        row["times one"] = round(reviews / options.rows * took[ONE] / took[way], 2)
        if way == STRONG:
            row["efficiency"] = f"{efficiency(took[ONE], took[way], options.ranks):.0%}"
        if way == WEAK:
            row["efficiency"] = f"{weak_efficiency(took[ONE], took[way]):.0%}"
        rows.append(row)
    return rows


def predictions(way: str, found: dict, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a step from its parts: "predicted" and "busy"."""
    took = {name: statistics.median(seconds) for name, seconds in found["seconds"].items()}
    if way in (ONE, THREADS):
        who = "idle" if way == ONE else "threads"
        return {"predicted": Parts(took[f"whole, {who}"], took[f"Adam, {who}"]).step}
    nbytes = 4 * found["parameters"]
    # alpha and beta are those of a whole all_reduce, not of one message
    wire = found["alpha"] + nbytes * found["beta"]
    part = "whole" if way == WEAK else "share"
    return {
        name: Parts(took[f"{part}, {who}"], took[f"Adam, {who}"], wire).step
        for name, who in (("predicted", "idle"), ("busy", "busy"))
    }


def parts(found: dict) -> list[dict]:
    """The parts that were measured by themselves, as rows."""
    names = (ONE, THREADS, STRONG, WEAK)
    return [
        {"part": name, "unit": "ms"} | summary(seconds)
        for name, seconds in found["seconds"].items()
        if name not in names
    ]


if __name__ == "__main__":
    main()
