"""The options of pipe_ddp: read, completed, checked, and said as train_lm's."""

from dataclasses import dataclass, fields

from rankbook.models import preset
from rankbook.parallel.mesh import Layout
from rankbook.parallel.pipeline import PipelinePlan, find_schedule
from rankbook.programs.number_types import positive_float, positive_int
from rankbook.programs.options import Parser, from_namespace, option
from rankbook.programs.train_lm.options import Options as MeshOptions
from rankbook.programs.train_lm.training_options import (
    Training,
    check_compile,
    preset_defaults,
    resume_invariants,
)

__all__ = ["Options", "as_mesh", "make_plan", "parser", "read", "resume_invariants"]


@dataclass(frozen=True, kw_only=True)
class Options(Training):
    """What to train, on how many stages and replicas, and what to keep of it; checked.

    replicas: None for what suits the processes.
    """

    batch: int = option(positive_int, 40, help="rows of the text in a step, for all replicas (40)")
    window: int = option(positive_int, 35, help="tokens of a row in a step (35)")
    eps: float = option(positive_float, 1e-8, help="AdamW's epsilon (1e-08)")
    evaluate_every: int | None = option(positive_int, 50, metavar="STEPS", help="(50)")
    log_every: int = option(positive_int, 10, metavar="STEPS", help="(10)")
    stages: int = option(positive_int, 2, help="parts of the model (2)")
    replicas: int | None = option(
        positive_int, help="pipelines side by side (as many as processes allow)"
    )


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "torchrun ... -m rankbook.programs.pipe_ddp",
        "Train a Transformer on WikiText-2: pipelines of stages, and replicas of them.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options, completed by the preset's. Raises ValueError for what cannot be meant."""
    parsed = parser().parse_args(arguments)
    if parsed.resume and parsed.checkpoint is None:
        raise ValueError("--resume needs --checkpoint DIR, the folder of the run to go on with")
    return from_namespace(Options, parsed, **preset_defaults(parsed))


def make_plan(options: Options, world_size: int) -> PipelinePlan:
    """How `world_size` processes share the stages and the replicas.

    With fewer processes than stages x replicas, a process gets several stages. Raises ValueError
    if it cannot be done, or does not suit the batch or the preset's layers.
    """
    replicas = options.replicas or world_size // _ranks(options, world_size)
    if options.replicas is None and replicas == world_size > 1 and options.stages > 1:
        raise ValueError(
            f"--stages {options.stages} suits no pipeline of several of {world_size} processes; "
            f"use --stages {world_size * _fewest(options)}, or --replicas {world_size} for as many "
            "copies of the whole model"
        )
    if world_size % replicas:
        raise ValueError(
            f"--replicas {replicas} needs a multiple of {replicas} processes, not {world_size}; "
            "with fewer replicas the same --batch gives the same training"
        )
    ranks = world_size // replicas
    schedule = options.schedule or ("1f1b" if ranks == options.stages else "interleaved1f1b")
    microbatches = options.microbatches or max(4, options.stages)
    plan = PipelinePlan(schedule, ranks, microbatches, replicas, options.stages)
    plan.check_model(preset(options.preset, vocab_size=1))
    plan.check_batch(options.batch)
    check_compile(options.compile, schedule)
    return plan


def as_mesh(options: Options, plan: PipelinePlan) -> MeshOptions:
    """The same as train_lm says it: ``--stages 2 --replicas 2`` is ``--mesh pp=2,dp=2``."""
    same = {field.name: getattr(options, field.name) for field in fields(Training)}
    same |= {"schedule": plan.schedule, "microbatches": plan.microbatches}
    layout = Layout(pp=plan.ranks, dp=plan.replicas)
    return MeshOptions(**same, layout=layout, stages=plan.stages)


def _ranks(options: Options, world_size: int) -> int:
    """Processes in a pipeline, where the replicas are left open: as many as have stages to do."""
    most = max(1, options.stages // _fewest(options))
    return max(n for n in range(1, most + 1) if world_size % n == 0 and options.stages % n == 0)


def _fewest(options: Options) -> int:
    """The fewest stages that the schedule puts in a process."""
    return find_schedule(options.schedule or "1f1b").stages_per_rank
