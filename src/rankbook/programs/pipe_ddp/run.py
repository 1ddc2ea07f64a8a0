"""Pipe + DDP on WikiText-2: pipelines of stages, replicas of the pipelines.

torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp --stages 2 --replicas 2
"""

import math
import sys
import time
from dataclasses import asdict, dataclass, field, replace

import torch
import torch.distributed as dist

from rankbook.checkpoint import PipelineCheckpoints, capture_stages
from rankbook.core.agreement import broadcast_from_rank0, rank0_first
from rankbook.data import Corpus, wikitext2
from rankbook.models import preset, token_loss
from rankbook.parallel import Pipeline, PipelinePlan, init, stage_module
from rankbook.programs.ending import telling
from rankbook.programs.options import ranks
from rankbook.programs.pipe_ddp.options import Options, deciding, make_plan, read
from rankbook.programs.report import Log, Progress
from rankbook.programs.resuming import open_run
from rankbook.training import (
    batchify,
    evaluate,
    learning_rate,
    perplexity,
    seed_step,
    steps_of_epoch,
    train_step,
    training_batch,
    windows,
)

START = "torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp"
SPLITS = ("train", "valid", "test")


@dataclass
class PipelineRun:
    """One run on this rank; `step` is the next one, `best` the lowest validation loss so far.

    latest: the state to go on from; best_model: that of the lowest validation loss; if kept.
    """

    options: Options
    pipeline: Pipeline
    optimizer: torch.optim.Optimizer
    splits: dict[str, torch.Tensor]
    log: Log
    step: int = 0
    best: float = math.inf
    latest: PipelineCheckpoints | None = None
    best_model: PipelineCheckpoints | None = None
    first: bool = field(default_factory=lambda: dist.get_rank() == 0)

    def numbers(self):
        """The type that layers compute in."""
        device = self.pipeline.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.options.bf16)


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, in nats per token."""
    with telling("pipe_ddp"):
        run = prepare(sys.argv[1:] if arguments is None else arguments)
    with telling("pipe_ddp", OSError):
        train(run)
        result = finish(run)
    del run  # a DDP has to go before its group, or the two may wait for each other
    dist.destroy_process_group()
    return result


def prepare(arguments: list[str]) -> PipelineRun:
    """Check everything, join the group, make this rank's stages, load what is resumed."""
    options = read(arguments)
    plan = make_plan(options, ranks(START))
    device = init(options.backend, options.timeout)
    corpus = rank0_first(wikitext2)  # the others find the ids that it has kept
    splits = {name: batchify(getattr(corpus, name), options.batch) for name in SPLITS}
    whole = steps_of_epoch(splits["train"], options.window)  # long enough?
    if options.epochs:
        options = replace(options, steps=options.epochs * whole)
    pipeline = make_pipeline(options, plan, device, len(corpus.vocab))
    optimizer = torch.optim.AdamW(pipeline.parameters(), lr=options.lr, fused=device.type == "cuda")
    run = PipelineRun(options, pipeline, optimizer, splits, Log(None))
    begin_or_resume(run)
    broadcast_from_rank0(lambda: begin_log(run, corpus))
    return run


def begin_log(run: PipelineRun, corpus: Corpus) -> None:
    """Rank 0 keeps the log. Raises OSError where it cannot."""
    run.log = Log(run.options.log_file)
    run.log.write(start=describe(run, corpus))


def make_pipeline(
    options: Options, plan: PipelinePlan, device: torch.device, vocab_size: int
) -> Pipeline:
    """This rank's stages, made on `device` directly, and compiled if asked for."""
    config = preset(options.preset, vocab_size, max_length=options.window)
    mesh = plan.mesh(device.type)
    modules = {
        index: stage_module(config, index, plan.stages, device, options.seed)
        for index in plan.stages_of(mesh["pp"].get_local_rank())
    }
    loss = token_loss
    if options.compile:
        loss = torch.compile(token_loss)
        for module in modules.values():
            for layer in module.layers.values():
                layer.compile()  # in place: the names of the parameters stay
    return Pipeline(plan, {**modules}, mesh, loss, config)


def begin_or_resume(run: PipelineRun) -> None:
    """Begin a run in the folder of the checkpoints, or go on with the one that is there."""
    folder = run.options.checkpoint
    if folder is None:
        return
    open_run(folder, deciding(run.options), run.options.resume)
    run.latest, run.best_model = (
        PipelineCheckpoints(folder / n, keep=1) for n in ("latest", "best")
    )
    if saved := run.latest.newest():  # the run may have ended before it saved anything
        run.best = saved.load_into(run.pipeline, run.optimizer)["best"]
        run.step = saved.step


def describe(run: PipelineRun, corpus: Corpus) -> dict:
    """What is run, where, for the log."""
    plan, device = run.pipeline.plan, run.pipeline.device
    return {
        "options": asdict(run.options),
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "from step": run.step,
        "data": corpus.source,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }


def train(run: PipelineRun) -> None:
    """All steps that are left, with what is due after some of them."""
    options, rank = run.options, dist.get_rank()
    bar = Progress(run.step, options.steps, silent=not run.first)
    bar.say(f"{run.pipeline.plan}, from step {run.step} to {options.steps}")
    losses, start = [], time.perf_counter()
    while run.step < options.steps:
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate(run.step, options.lr, options.warm_up)
        seed_step(options.seed, run.step, rank)
        batch = training_batch(run.splits["train"], run.step, options.window)
        with run.numbers():
            loss, norm = train_step(run.pipeline, run.optimizer, *batch, options.max_norm)
        losses.append(loss)
        run.step += 1
        if run.step % options.log_every == 0 or run.step == options.steps:
            record = measure(losses, norm, start, batch[0].numel())
            run.log.write(step=run.step, lr=run.optimizer.param_groups[0]["lr"], **record)
            bar.update(run.step, f"loss {record['loss']:.3f}")
            losses, start = [], time.perf_counter()
        if run.step % options.evaluate_every == 0 or run.step == options.steps:
            validate(run, bar)
            start = time.perf_counter()
        if run.latest and (run.step % options.save_every == 0 or run.step == options.steps):
            state = capture_stages(run.pipeline, run.optimizer, {"best": run.best})
            run.latest.save(run.step, state)
            start = time.perf_counter()


def measure(losses: list[torch.Tensor], norm: torch.Tensor, start: float, tokens: int) -> dict:
    """The mean of the losses since the last record, and the pace. This waits for a GPU."""
    loss = torch.stack(losses).mean().item()
    seconds = time.perf_counter() - start
    return {"loss": loss, "norm": norm.item(), "tokens per second": len(losses) * tokens / seconds}


def validate(run: PipelineRun, bar: Progress) -> None:
    """Measure on the validation split; keep a copy of the model, on disk, if it is the best."""
    loss = assess(run, "valid")
    better = loss < run.best
    run.best = min(loss, run.best)
    if better and run.best_model:
        run.best_model.save(run.step, capture_stages(run.pipeline, position={"loss": loss}))
    run.log.write(step=run.step, valid_loss=loss, valid_perplexity=perplexity(loss))
    bar.say(f"step {run.step}: validation loss {loss:.3f}, perplexity {perplexity(loss):.1f}")


def assess(run: PipelineRun, split: str) -> float:
    """The mean loss per token over a split, or over its first batches if the options say so."""
    with run.numbers():
        of_split = windows(run.splits[split], run.options.window, run.options.evaluate_on)
        return evaluate(run.pipeline, of_split)


def finish(run: PipelineRun) -> dict:
    """The test loss of the best model; without checkpoints, of the last."""
    which = "last"
    if run.best_model and (saved := run.best_model.newest()):
        saved.load_into(run.pipeline)
        which = "best"
    loss = assess(run, "test")
    run.log.write(test_loss=loss, test_perplexity=perplexity(loss), model=which)
    if run.first:
        print(f"test loss of the {which} model {loss:.3f}, perplexity {perplexity(loss):.1f}")
    return {"best_valid_loss": run.best, "test_loss": loss, "step": run.step}
