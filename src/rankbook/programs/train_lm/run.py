"""Any mesh on WikiText-2: pipelines of stages, replicas, layers and sequences cut among ranks.

torchrun --standalone --nproc-per-node 8 -m rankbook.programs.train_lm --mesh pp=2,dp=2,tp=2

Whatever the mesh, the losses are those of one process: batches, initial values and learning rates
know nothing of it. Only dropout (preset original) draws other numbers on another mesh: each rank
has its own, for its own part of the rows, tokens and heads. And rounding, 1e-6 of a loss, decides
now and then on which side of zero a hidden unit is, or which of two almost equally probable experts
a token goes through: losses of a model with experts then part, by 1e-4 in the fourth step of preset
tiny with seed 0 on one rank and on two.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import cast

import torch
import torch.distributed as dist

from rankbook.core.agreement import broadcast_from_rank0, rank0_first
from rankbook.core.placement import init
from rankbook.data import Corpus, wikitext2
from rankbook.models import TransformerLM, preset
from rankbook.parallel.mesh import build
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.options import world_size_from_env
from rankbook.programs.report import Log
from rankbook.programs.resuming import open_run
from rankbook.programs.train_lm import syncing
from rankbook.programs.train_lm.mixture import in_config, mixture_invariants
from rankbook.programs.train_lm.options import Options, parser, read
from rankbook.programs.train_lm.steps import MeshRun, finish, train
from rankbook.programs.train_lm.training_options import resume_invariants
from rankbook.training import batchify, steps_of_epoch
from rankbook.training.checkpoint import PipelineCheckpoints, ReplicaCheckpoints

START = "torchrun --standalone --nproc-per-node 8 -m rankbook.programs.train_lm"
SPLITS = ("train", "valid", "test")


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, in nats per token."""
    words = sys.argv[1:] if arguments is None else arguments

    def options() -> Options:
        parser().parse_args(words)  # what is wrong everywhere is said first
        return read(words, world_size_from_env(f"{START} --mesh pp=2,dp=2,tp=2"))

    return work("train_lm", options, init)


def work(
    program: str, read_options: Callable[[], Options], join: Callable[..., torch.device]
) -> dict:
    """What `program` does on every rank, from its options to its results.

    join: (backend, timeout) to this rank's device, once the process group is there.
    """
    with exit_on_user_error(program):
        run = prepare(read_options(), join)
    with exit_on_user_error(program, OSError):
        train(run)
        result = finish(run)
    del run  # what holds a group has to go before it, or the two may wait for each other
    dist.destroy_process_group()
    return result


def prepare(options: Options, join: Callable[..., torch.device]) -> MeshRun:
    """Join the group, make this rank's part, load what is resumed."""
    device = join(options.backend, options.timeout)
    corpus = rank0_first(wikitext2)  # the others find the ids that it has kept
    splits = {name: batchify(getattr(corpus, name), options.batch) for name in SPLITS}
    whole = steps_of_epoch(splits["train"], options.window)  # long enough?
    if options.epochs:
        options = replace(options, steps=options.epochs * whole)
    part = make_part(options, device, len(corpus.vocab))
    optimizer = torch.optim.AdamW(
        part.parameters(), lr=options.lr, eps=options.eps, fused=device.type == "cuda"
    )
    run = MeshRun(options, part, optimizer, splits, Log(None), syncing.begin(options, part))
    begin_or_resume(run)
    broadcast_from_rank0(lambda: begin_log(run, corpus))
    return run


def make_part(options: Options, device: torch.device, vocab_size: int) -> ShardedModel:
    """This rank's part, made on `device` directly, and compiled if asked for."""
    sizes = {"max_length": options.window, **in_config(options)}
    config = preset(options.preset, vocab_size, **sizes)
    how = options.schedule, options.microbatches, options.stages
    part = build(config, options.layout, device, options.seed, *how)
    if options.compile:
        part.pipeline.loss_fn = torch.compile(part.pipeline.loss_fn)
        for module in part.modules.values():
            for layer in cast(TransformerLM, module).layers.values():
                if options.layout.cp > 1:  # its messages are no compiler's business
                    layer.attention = torch.compiler.disable(layer.attention)
                layer.compile()  # in place: the names of the parameters stay
    return part


def begin_or_resume(run: MeshRun) -> None:
    """Begin a run in the folder of the checkpoints, or go on with the one that is there."""
    folder = run.options.checkpoint
    if folder is None:
        return
    kept = (
        resume_invariants(run.options)
        | syncing.resume_invariants(run.options)
        | mixture_invariants(run.options)
    )
    open_run(folder, kept, run.options.resume)
    kind = ReplicaCheckpoints if run.sync else PipelineCheckpoints
    run.latest = kind(folder / "latest", keep=1)
    run.best_model = PipelineCheckpoints(folder / "best", keep=1)
    if saved := run.latest.newest():  # the run may have ended before it saved anything
        run.resume(saved)


def begin_log(run: MeshRun, corpus: Corpus) -> None:
    """Rank 0 keeps the log. Raises OSError where it cannot."""
    run.log = Log(run.options.log_file)
    run.log.write(start=describe(run, corpus))


def describe(run: MeshRun, corpus: Corpus) -> dict:
    """What is run, where, for the log."""
    layout, plan, device = run.options.layout, run.part.plan, run.part.device
    return {
        "options": asdict(run.options),
        "mesh": str(layout),
        "shard": layout.shard,
        "plan": asdict(plan),
        "from step": run.step,
        "data": corpus.source,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
