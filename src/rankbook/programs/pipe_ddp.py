"""Pipe + DDP on WikiText-2: pipelines of stages, replicas of the pipelines.

torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp --stages 2 --replicas 2
"""

import argparse
import json
import math
import os
import sys
import time
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from rankbook.data import Corpus, wikitext2
from rankbook.models import preset
from rankbook.parallel import Pipeline, PipelinePlan, init, stage_module
from rankbook.programs.pipe_ddp_options import check_same, deciding, make_plan, read
from rankbook.programs.report import Log, Progress, end, fail
from rankbook.training import (
    batchify,
    evaluate,
    learning_rate,
    load_checkpoint,
    perplexity,
    save_checkpoint,
    seed_step,
    token_loss,
    train_step,
    training_batch,
    windows,
)

START = "torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp"
SPLITS = ("train", "valid", "test")


@dataclass
class Job:
    """One run on this rank; `step` is the next one, `best` the lowest validation loss so far."""

    options: argparse.Namespace
    pipeline: Pipeline
    optimizer: torch.optim.Optimizer
    splits: dict[str, torch.Tensor]
    log: Log
    step: int = 0
    best: float = math.inf
    first: bool = field(default_factory=lambda: dist.get_rank() == 0)

    def numbers(self):
        """The type that layers compute in."""
        device = self.pipeline.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.options.bf16)


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, in nats per token."""
    try:
        job = prepare(sys.argv[1:] if arguments is None else arguments)
    except (ValueError, OSError, ImportError) as error:
        fail(error, "pipe_ddp")
    train(job)
    result = finish(job)
    dist.destroy_process_group()
    return result


def prepare(arguments: list[str]) -> Job:
    """Check everything, join the group, make this rank's stages, load what is resumed."""
    options = read(arguments)
    if "WORLD_SIZE" not in os.environ:
        raise ValueError(f"no process group is described here; start it with torchrun: {START}")
    plan = make_plan(options, int(os.environ["WORLD_SIZE"]))
    device = init(options.backend, options.timeout)
    corpus = load_data()
    splits = {name: batchify(getattr(corpus, name), options.batch) for name in SPLITS}
    training_batch(splits["train"], 0, options.window)  # long enough?
    pipeline = make_pipeline(options, plan, device, len(corpus.vocab))
    optimizer = torch.optim.AdamW(pipeline.parameters(), lr=options.lr, fused=device.type == "cuda")
    job = Job(options, pipeline, optimizer, splits, Log(None))
    open_run(job)
    if job.first:
        job.log = Log(options.log_file)
        job.log.write(start=describe(job, corpus))
    return job


def load_data() -> Corpus:
    """WikiText-2, on rank 0 first: the others find the ids that it has kept."""
    if dist.get_rank() == 0:
        corpus = wikitext2()
    dist.barrier()
    return corpus if dist.get_rank() == 0 else wikitext2()


def make_pipeline(
    options: argparse.Namespace, plan: PipelinePlan, device: torch.device, vocab_size: int
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
    return Pipeline(plan, modules, mesh, loss, config)


def open_run(job: Job) -> None:
    """Begin a run in the folder of the checkpoints, or go on with the one that is there."""
    folder = job.options.checkpoint
    if folder is None:
        return
    about = folder / "run.json"
    exists = about.is_file()
    dist.barrier()  # all have looked, then one writes
    if exists and not job.options.resume:
        raise ValueError(f"{folder} holds a run; go on with it by --resume, or name another folder")
    if job.options.resume and not exists:
        raise ValueError(f"{folder} holds no run to resume; leave out --resume to begin one")
    if exists:
        check_same(job.options, json.loads(about.read_text("utf-8")))
        if (folder / "latest").exists():  # the run may have ended before it saved anything
            kept = load_checkpoint(folder / "latest", job.pipeline, job.optimizer)
            job.step, job.best = int(kept["step"]), kept["best"]
    elif job.first:
        folder.mkdir(parents=True, exist_ok=True)
        about.write_text(json.dumps(deciding(job.options)) + "\n", "utf-8")


def describe(job: Job, corpus: Corpus) -> dict:
    """What is run, where, for the log."""
    plan, device = job.pipeline.plan, job.pipeline.device
    return {
        "options": vars(job.options),
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "from step": job.step,
        "data": corpus.source,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }


def train(job: Job) -> None:
    """All steps that are left, with what is due after some of them."""
    options, rank = job.options, dist.get_rank()
    bar = Progress(job.step, options.steps, silent=not job.first)
    bar.say(f"{job.pipeline.plan}, from step {job.step} to {options.steps}")
    losses, start = [], time.perf_counter()
    while job.step < options.steps:
        for group in job.optimizer.param_groups:
            group["lr"] = learning_rate(job.step, options.lr, options.warm_up)
        seed_step(options.seed, job.step, rank)
        batch = training_batch(job.splits["train"], job.step, options.window)
        with job.numbers():
            loss, norm = train_step(job.pipeline, job.optimizer, *batch, options.max_norm)
        losses.append(loss)
        job.step += 1
        if job.step % options.log_every == 0 or job.step == options.steps:
            record = measure(losses, norm, start, batch[0].numel())
            job.log.write(step=job.step, lr=job.optimizer.param_groups[0]["lr"], **record)
            bar.update(job.step, f"loss {record['loss']:.3f}")
            losses, start = [], time.perf_counter()
        if job.step % options.evaluate_every == 0 or job.step == options.steps:
            validate(job, bar)
            start = time.perf_counter()
        if options.checkpoint and (job.step % options.save_every == 0 or job.step == options.steps):
            values = {"step": job.step, "best": job.best}
            save_checkpoint(options.checkpoint / "latest", job.pipeline, job.optimizer, **values)
            start = time.perf_counter()


def measure(losses: list[torch.Tensor], norm: torch.Tensor, start: float, tokens: int) -> dict:
    """The mean of the losses since the last record, and the pace. This waits for a GPU."""
    loss = torch.stack(losses).mean().item()
    seconds = time.perf_counter() - start
    return {"loss": loss, "norm": norm.item(), "tokens per second": len(losses) * tokens / seconds}


def validate(job: Job, bar: Progress) -> None:
    """Measure on the validation split; keep a copy of the model, on disk, if it is the best."""
    loss = assess(job, "valid")
    better = loss < job.best
    job.best = min(loss, job.best)
    if better and job.options.checkpoint:
        save_checkpoint(job.options.checkpoint / "best", job.pipeline, step=job.step, loss=loss)
    job.log.write(step=job.step, valid_loss=loss, valid_perplexity=perplexity(loss))
    bar.say(f"step {job.step}: validation loss {loss:.3f}, perplexity {perplexity(loss):.1f}")


def assess(job: Job, split: str) -> float:
    """The mean loss per token over a split, or over its first batches if the options say so."""
    with job.numbers():
        of_split = windows(job.splits[split], job.options.window, job.options.evaluate_on)
        return evaluate(job.pipeline, of_split)


def finish(job: Job) -> dict:
    """The test loss of the best model; without checkpoints, of the last."""
    which, folder = "last", job.options.checkpoint
    if folder and (folder / "best").exists():
        load_checkpoint(folder / "best", job.pipeline)
        which = "best"
    loss = assess(job, "test")
    job.log.write(test_loss=loss, test_perplexity=perplexity(loss), model=which)
    if job.first:
        print(f"test loss of the {which} model {loss:.3f}, perplexity {perplexity(loss):.1f}")
    return {"best_valid_loss": job.best, "test_loss": loss, "step": job.step}


if __name__ == "__main__":
    main()
    end()
