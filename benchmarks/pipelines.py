"""Tokens per second of pipelines beside the unsplit model, and the billion parameters on one GPU.

    python -m benchmarks.pipelines              2 ranks of one thread each, on the CPU
    python -m benchmarks.pipelines --gpu        preset "original", all stages in one process

Writes book/results/pipelines-cpu-2.json or pipelines-gpu-1.json. What is compared is timed in
turn. Nothing else should run on the machine meanwhile.
"""

import argparse
from collections.abc import Callable

import torch

from benchmarks.harness import Here, on_ranks, show
from benchmarks.pipelines_gpu import measure_gpu
from benchmarks.record import check_repeats, load_average, summary, write

ROWS, WINDOW, MICROBATCHES = 16, 32, (4, 8, 16)
SIZES = {"vocab_size": 1024, "d_model": 256, "d_hidden": 1024, "heads": 4, "layers": 8}
WARM_UP = 2
CPU = (
    f"Training steps of {ROWS} rows of {WINDOW} tokens, a Transformer of 8 layers of width 256: "
    "2 ranks of one thread each, beside the unsplit model in one process"
)
GPU = (
    "Training steps of preset original (1.04 billion parameters), 2 stages in one process on one "
    "GPU. The original's text has 699 ms for 40 rows of 35 tokens, on four GPUs"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = load_average()
    if options.gpu:
        rows = measure_gpu(options.repeats or 20, options.peak)
        path = write("pipelines-gpu-1", GPU, rows, libraries=("torch",), kind="GPU", load=load)
    else:
        rows = measure_cpu(options.repeats or 12)
        path = write("pipelines-cpu-2", CPU, rows, libraries=("torch",), kind="CPU", load=load)
    show(*rows)
    print(path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time pipelines.")
    parser.add_argument("--gpu", action="store_true", help="preset original on one GPU")
    parser.add_argument("--repeats", type=int, help="timed steps of each (12, or 20 on a GPU)")
    parser.add_argument(
        "--peak", type=float, metavar="TFLOPS", help="the card's dense bfloat16 peak, if unknown"
    )
    options = parser.parse_args(arguments)
    if options.repeats is not None:
        check_repeats(parser, options.repeats)
    if options.peak is not None and not options.gpu:
        parser.error("--peak is that of a GPU; use it with --gpu")
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu: torch sees no GPU here")
    return options


def measure_cpu(repeats: int) -> list[dict]:
    """Start two ranks, let them measure, return the rows."""
    seconds = on_ranks(2, timed, repeats)
    rates = {key: [ROWS * WINDOW / s for s in times] for key, times in seconds.items()}
    rows = []
    for (schedule, microbatches, threads), of_one in rates.items():
        row = {"schedule": schedule, "microbatches": microbatches, "threads": threads}
        row |= {"unit": "tokens/s"} | summary(of_one, unit=1.0)
        rows.append(row)
    for row in rows:  # the first is the unsplit model on one thread, the second on two
        row["times one thread"] = round(row["median"] / rows[0]["median"], 2)
        row["times two threads"] = round(row["median"] / rows[1]["median"], 2)
    return rows


def timed(here: Here, repeats: int) -> dict[tuple[str, int, str], list[float]]:
    """Seconds of the slower rank for each, in turns; a rank without work waits."""
    from rankbook.core.timing import time_interleaved

    return time_interleaved(
        everything(here.rank), repeats, here.device, WARM_UP, clock="slowest rank"
    )


def everything(rank: int) -> dict[tuple[str, int, str], Callable[[], None]]:
    """What is timed: (schedule, microbatches, threads) to a training step of this rank."""
    from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
    from rankbook.parallel.pipeline import Pipeline, PipelinePlan, schedule_names, stage_module
    from rankbook.training import train_step

    config = TransformerConfig(**SIZES, max_length=WINDOW)
    text = torch.randint(
        config.vocab_size, (ROWS, WINDOW + 1), generator=torch.Generator().manual_seed(0)
    )
    tokens, targets = text[:, :-1], text[:, 1:]
    whole = TransformerLM(config)
    initialise(whole, 0)
    optimizer = torch.optim.AdamW(whole.parameters())

    def unsplit(threads: int) -> None:
        if rank > 0:
            return
        torch.set_num_threads(threads)
        optimizer.zero_grad()
        token_loss(whole(tokens), targets).backward()
        torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        optimizer.step()
        torch.set_num_threads(1)

    steps = {
        ("unsplit", 1, "1"): lambda: unsplit(1),
        ("unsplit", 1, "2"): lambda: unsplit(2),
    }
    for name in schedule_names():
        for microbatches in MICROBATCHES:
            plan = PipelinePlan(name, 2, microbatches)
            indices = plan.stages_of(rank)
            modules = {
                i: stage_module(config, i, plan.stages, torch.device("cpu")) for i in indices
            }
            pipeline = Pipeline(plan, modules, plan.mesh("cpu"), token_loss, config)
            of_stages = torch.optim.AdamW(pipeline.parameters())
            steps[name, microbatches, "2 x 1"] = lambda p=pipeline, o=of_stages: train_step(
                p, o, tokens, targets, 0.5
            )
    return steps


if __name__ == "__main__":
    main()
