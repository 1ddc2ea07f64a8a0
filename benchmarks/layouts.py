"""Tokens per second of one model on meshes of 2, 4 and 8 ranks, beside what is foretold.

    python -m benchmarks.layouts

Writes book/results/layouts-cpu-2.json. Layouts of equally many ranks are timed in turn; the numbers
of ranks take turns, too, one launch after another. The costs that go into the prediction (rows,
passes and the update in one process, each operation over all ranks) come from the same launches.
Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import statistics
import time
from functools import partial

import torch

from benchmarks.harness import Here, interleaved, on_ranks, show
from benchmarks.record import check_repeats, load_average, summary, write

SIZES = {"vocab_size": 1024, "d_model": 128, "d_hidden": 512, "heads": 8, "layers": 8}
ROWS, WINDOW, FEW = 16, 32, 2
# ranks: (layout, shard)
LAYOUTS = {
    1: [("dp=1", "none")],
    2: [("dp=2", "none"), ("dp=2", "fsdp"), ("pp=2", "none"), ("tp=2", "none")],
    4: [
        *[("dp=4", "none"), ("dp=4", "fsdp"), ("dp=4", "2"), ("pp=4", "none"), ("tp=4", "none")],
        *[("pp=2,dp=2", "none"), ("pp=2,tp=2", "none"), ("dp=2,tp=2", "fsdp")],
    ],
    8: [
        *[("dp=8", "none"), ("dp=8", "fsdp"), ("pp=8", "none"), ("tp=8", "none")],
        *[("pp=4,dp=2", "none"), ("pp=2,tp=4", "none"), ("dp=4,tp=2", "fsdp")],
        *[("pp=2,dp=2,tp=2", "none"), ("pp=2,dp=2,tp=2", "fsdp")],
    ],
}
WARM_UP = 2
PRELOAD = ("torch.distributed.pipelining", "torch.distributed.tensor", "torch.distributed.fsdp")
MESSAGES = [1 << power for power in range(6, 22, 3)]  # bytes
WHAT = (
    f"Training steps of {ROWS} rows of {WINDOW} tokens, a Transformer of 8 layers of width 128, on "
    "2, 4 and 8 ranks of one thread each, which share 2 cores: tokens per second by layout, and "
    "as a model foretells it that knows what rows, passes and the update take one process, and "
    "alpha and beta of each operation. KiB: what a rank puts on the wire in a step, the mean "
    "over ranks, by dimension; counted, and equal to the formula call by call"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row and the error, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__)
    parser.add_argument("--repeats", type=int, default=12, help="timed steps of each layout")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each number of ranks")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if not 1 <= options.rounds <= options.repeats:
        parser.error(f"--rounds {options.rounds} must be 1 to --repeats, {options.repeats}")
    load = load_average()
    rows, costs = measured(options.repeats, options.rounds)
    show(*rows)
    off = statistics.median(abs(row["error"]) for row in rows if "error" in row)
    print(f"the prediction is off by {off:.0%} (median)")
    more = {"kind": "CPU", "load": load, "costs": costs, "median_error": round(off, 3)}
    print(write("layouts-cpu-2", WHAT, rows, libraries=("torch",), **more))


def measured(repeats: int, rounds: int) -> tuple[list[dict], dict]:
    """Rows of the result, and the costs behind the predictions by number of ranks."""
    notes: dict[int, list[dict]] = {ranks: [] for ranks in LAYOUTS}
    for turn in range(rounds):
        steps = len(range(turn, repeats, rounds))
        for ranks in LAYOUTS:
            notes[ranks].append(on_ranks(ranks, note_of, steps, preload=PRELOAD))
    costs = {ranks: costs_of(ranks, notes) for ranks in LAYOUTS if ranks > 1}
    rows = []
    for ranks, layouts in LAYOUTS.items():
        for layout in layouts:
            seconds = [s for note in notes[ranks] for s in note["seconds"][layout]]
            rows.append(row_of(layout, seconds, notes[ranks][0]["sent"][layout], costs.get(ranks)))
    return rows, {str(ranks): {**vars(each)} for ranks, each in costs.items()}


def costs_of(ranks: int, notes: dict[int, list[dict]]):
    """The costs in a world of `ranks`: medians over its launches."""
    from rankbook.comm.all_reduce import fit_alpha_beta
    from rankbook.predict.cost_model.layouts import StepCosts, fit_message, fit_passes

    def median(world: int, name: str) -> float:
        return statistics.median(s for note in notes[world] for s in note[name])

    a_pass, row = fit_passes((FEW, median(1, "few")), (ROWS, median(1, "many")))
    tensor_pass = max(a_pass, median(1, "tensor few") - row * FEW)
    lines = {}
    for operation in notes[ranks][0]["messages"]:
        of_all = [note["messages"][operation] for note in notes[ranks]]
        took = torch.stack([torch.cat(sizes).median() for sizes in zip(*of_all, strict=True)])
        line = fit_alpha_beta(torch.tensor(MESSAGES), took)
        lines[operation] = line if operation == "send" else fit_message(operation, ranks, *line)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return StepCosts(row, a_pass, tensor_pass, median(1, "update"), cores or 1, lines)


def row_of(layout: tuple[str, str], seconds: list[float], sent: dict, costs) -> dict:
    """One row of the result; the prediction's where there are costs, so not of one rank."""
    from rankbook.parallel.mesh import Layout
    from rankbook.parallel.mesh.building import make_plan
    from rankbook.predict.cost_model.layouts import predict_step

    mesh = Layout.parse(*layout)
    tokens = ROWS * WINDOW
    row = {"ranks": mesh.ranks, "layout": layout[0], "shard": layout[1]}
    row |= {f"{name} KiB": round(sent.get(name, 0.0) / 1024, 1) for name in ("pp", "dp", "tp")}
    row |= {"unit": "tokens/s"} | summary([tokens / s for s in seconds], unit=1.0)
    if costs is None:
        return row
    microbatches = make_plan(mesh, None, None).microbatches
    step = predict_step(mesh, ROWS, microbatches, busiest(mesh).messages, costs)
    foretold = tokens / step.total
    parts = {f"predicted {k} ms": round(v * 1e3, 1) for k, v in vars(step).items()}
    error = foretold / row["median"] - 1
    return row | {"predicted": round(foretold, 1), "error": round(error, 3)} | parts


def busiest(mesh):
    """What the rank sends that sends most, by the formula."""
    found = [foretold(mesh, rank) for rank in range(mesh.ranks)]
    return max(found, key=lambda sent: sent.total().ring)


def foretold(mesh, rank: int):
    """What `rank` sends in a step, by the formula."""
    from rankbook.models import TransformerConfig
    from rankbook.parallel.mesh.traffic_formula import predicted_traffic

    config = TransformerConfig(**SIZES, max_length=WINDOW)
    return predicted_traffic(config, mesh, ROWS, WINDOW, rank=rank)


def note_of(here: Here, repeats: int) -> dict:
    """Seconds of the layouts of so many ranks, in turn, what each sends, and what parts take."""
    from rankbook.core.agreement import gather

    steps = {layout: step_of(*layout) for layout in LAYOUTS[here.ranks]}
    sent = {layout: gather(counted(*made, here.rank)) for layout, made in steps.items()}
    seconds = interleaved(
        {name: partial(timed, step) for name, (_, step) in steps.items()}, repeats
    )
    note = {"seconds": seconds, "sent": {layout: mean(each) for layout, each in sent.items()}}
    if here.ranks > 1:
        return note | {"messages": messages(here.ranks, 2 * repeats)}
    return note | alone(repeats)


def step_of(words: str, shard: str):
    """A layout's part of the model, and a function that trains it for a step."""
    from rankbook.models import TransformerConfig
    from rankbook.parallel.mesh import Layout, build, train_step

    config = TransformerConfig(**SIZES, max_length=WINDOW)
    part = build(config, Layout.parse(words, shard), torch.device("cpu"))
    optimizer = torch.optim.AdamW(part.parameters())
    tokens, targets = text(ROWS)
    return part, lambda: train_step(part, optimizer, tokens, targets, 0.5)


def text(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same tokens and targets for everybody."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(SIZES["vocab_size"], (rows, WINDOW + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def counted(part, step, rank: int) -> dict[str, float]:
    """Bytes that this rank sends, by dimension; RuntimeError if the formula says otherwise."""
    from rankbook.comm.traffic import traffic

    for _ in range(WARM_UP):
        with traffic(part.mesh) as sent:
            step()
    if dict(sent) != dict(foretold(part.layout, rank)):
        raise RuntimeError(f"{part.layout}, rank {rank}: the formula is not what was counted")
    return {name: count.ring for name, count in sent.by_dimension().items()}


def mean(of_ranks: list[dict[str, float]]) -> dict[str, float]:
    """By dimension, over ranks."""
    names = {name for each in of_ranks for name in each}
    return {n: sum(each.get(n, 0.0) for each in of_ranks) / len(of_ranks) for n in names}


def messages(ranks: int, repeats: int) -> dict[str, list[torch.Tensor]]:
    """Seconds of each operation by size of the whole tensor; of a send from rank 0 to rank 1."""
    import torch.distributed as dist

    from rankbook.comm.all_reduce import time_messages, time_ping_pong

    def part(x: torch.Tensor) -> torch.Tensor:
        return x[: len(x) // ranks].clone()

    ways = {
        "all_reduce": dist.all_reduce,
        "all_gather": lambda x: dist.all_gather_into_tensor(x, part(x)),
        "reduce_scatter": lambda x: dist.reduce_scatter_tensor(part(x), x),
    }
    cpu, counts = torch.device("cpu"), dict.fromkeys(MESSAGES, repeats)
    return time_messages(ways, counts, cpu) | {"send": time_ping_pong(counts, cpu)}


def timed(step) -> float:
    """Seconds until the slowest rank is done."""
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    step()
    dist.barrier()
    return time.perf_counter() - start


def alone(repeats: int) -> dict[str, list[float]]:
    """What one process takes: for few rows and many, for few through DTensors, and the update."""
    from torch.distributed.device_mesh import init_device_mesh

    from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
    from rankbook.parallel.mesh import clip_grad_norm, tensor_parallel

    config = TransformerConfig(**SIZES, max_length=WINDOW)
    mesh = init_device_mesh("cpu", (1, 1, 1), mesh_dim_names=("pp", "dp", "tp"))
    plain, cut = TransformerLM(config), TransformerLM(config)
    initialise(plain, 0)
    tensor_parallel(cut, mesh["tp"])
    optimizer = torch.optim.AdamW(plain.parameters())

    def work(model, rows: int) -> None:
        tokens, targets = text(rows)
        logits = model(tokens)
        token_loss(getattr(logits, "_local_tensor", logits), targets).backward()

    def update() -> None:
        clip_grad_norm(plain.parameters(), 0.5, mesh)
        optimizer.step()

    steps = {
        "few": lambda: work(plain, FEW), "many": lambda: work(plain, ROWS),
        "tensor few": lambda: work(cut, FEW), "update": update,
    }  # fmt: skip
    return interleaved({n: partial(timed, step) for n, step in steps.items()}, repeats, WARM_UP)


if __name__ == "__main__":
    main()
