"""Time steps of a pipeline with and without the recorder, and record the difference for the book.

python -m benchmarks.pipeline_recorder --repeats 300

Writes book/results/pipeline_recorder.json: two ranks, one thread each, the preset "tiny" on the
CPU. Each step with the recorder has one without beside it, in changing order. Nothing else should
run on the machine meanwhile.
"""

import argparse
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.pipelining.stage import _PipelineStageBase

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import summary, write
from rankbook.models import preset
from rankbook.models.loss import token_loss
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, record, stage_module
from rankbook.parallel.pipeline.recorder import PipelineRecording

SCHEDULES = ("1f1b", "zbv")  # a stage per rank; two, and a backward in two parts: most actions
RANKS, MICROBATCHES, ROWS, LENGTH, VOCABULARY = 2, 8, 2, 35, 1000
WARM_UP = 5
GOAL = 0.02
WHAT = (
    "One training step (forward and backward) of the preset tiny as a pipeline of "
    f"{RANKS} ranks with {MICROBATCHES} microbatches of {ROWS} x {LENGTH} tokens, with and "
    "without the recorder"
)


def main() -> None:
    """Measure, print one line a schedule, write the result; exit 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="Time steps with and without the recorder.")
    parser.add_argument("--repeats", type=int, default=300)
    options = parser.parse_args()
    if options.repeats < 10:
        parser.error("--repeats: fewer than 10 say nothing")
    more = about(RANKS)
    seconds, actions = on_ranks(RANKS, measure, options.repeats)
    alone = per_action()
    rows, overhead = [], {}
    for name, (without, recorded), count in zip(SCHEDULES, seconds, actions, strict=True):
        for how, times in (("off", without), ("on", recorded)):
            rows.append({"schedule": name, "recorder": how, "unit": "ms"} | summary(times.tolist()))
        added = count * alone["median"] * 1e-6 / without.median().item()
        overhead[name] = compare(without, recorded) | {"actions": count, "added": round(added, 5)}
        print("{}: {median:+.2%} ({low:+.2%} to {high:+.2%}) by the clock, {added:.2%} by counting "
              "{actions} actions".format(name, **overhead[name]))  # fmt: skip
    rows.append({"schedule": "any", "recorder": "per action", "unit": "µs"} | alone)
    print("per action: {median} µs ({p10} to {p90})".format(**alone))
    more |= {"goal": GOAL, "overhead": overhead}
    write("pipeline_recorder", WHAT, rows, libraries=("torch",), **more)
    if any(max(each["median"], each["added"]) >= GOAL for each in overhead.values()):
        sys.exit(f"the recorder costs {GOAL:.0%} of a step or more")


def compare(without: torch.Tensor, recorded: torch.Tensor) -> dict[str, float]:
    """The median over pairs of steps of what the recorder adds, as a share of the step.

    without, recorded: seconds [repeats]. low, high: bounds of that median that hold with 95%
    confidence, the order statistics n/2 -+ 0.98 sqrt(n).
    """
    shares = (recorded / without - 1).sort().values
    aside = round(len(shares) / 2 - 0.98 * len(shares) ** 0.5)
    found = {"median": shares.median(), "low": shares[aside], "high": shares[-1 - aside]}
    return {name: round(share.item(), 5) for name, share in found.items()}


def per_action(repeats: int = 50, calls: int = 2000) -> dict:
    """What one recorded action costs more, in microseconds: of a forward that does nothing."""
    nothing = SimpleNamespace(stage_index=0)

    def once() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            _PipelineStageBase.forward_one_chunk(nothing, 0)
        return (time.perf_counter() - start) / calls

    more = []
    with patch.object(_PipelineStageBase, "forward_one_chunk", lambda stage, microbatch: None):
        for _ in range(repeats):
            without = once()
            with record():
                more.append(once() - without)
    return summary(more, unit=1e6)


def measure(_here: Here, repeats: int) -> tuple[torch.Tensor, list[int]]:
    """Seconds of all steps, float64 [schedules, off/on, repeats], of the slowest rank.

    And how many actions were recorded in a step of each schedule, on this rank.
    """
    pipelines = [make(name) for name in SCHEDULES]
    seconds = torch.zeros(len(SCHEDULES), 2, repeats, dtype=torch.float64)
    actions = [0] * len(SCHEDULES)
    for repeat in range(-WARM_UP, repeats):
        for i, pipeline in enumerate(pipelines):
            for on in (0, 1) if repeat % 2 else (1, 0):
                took, recording = timed(pipeline, record() if on else nullcontext())
                if on:
                    actions[i] = len(recording.actions())
                if repeat >= 0:
                    seconds[i, on, repeat] = took
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds, actions


def make(name: str) -> Pipeline:
    """The pipeline of one schedule on this rank."""
    config = preset("tiny", VOCABULARY)
    plan = PipelinePlan(name, RANKS, MICROBATCHES)
    mesh, cpu = plan.mesh("cpu"), torch.device("cpu")
    indices = plan.stages_of(mesh["pp"].get_local_rank())
    modules = {index: stage_module(config, index, plan.stages, cpu) for index in indices}
    return Pipeline(plan, modules, mesh, token_loss, config)


def timed(pipeline: Pipeline, context) -> tuple[float, PipelineRecording | None]:
    """Seconds that a step in `context` takes this rank, once all are ready; what it recorded."""
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(VOCABULARY, (MICROBATCHES * ROWS, LENGTH + 1), generator=generator)
    for parameter in pipeline.parameters():
        parameter.grad = None
    dist.barrier()
    start = time.perf_counter()
    with context as recording:
        pipeline.step(text[:, :-1], text[:, 1:])
    return time.perf_counter() - start, recording


if __name__ == "__main__":
    main()
