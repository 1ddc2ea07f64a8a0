"""The options of train_lm: read, completed and checked before any rank talks to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.models import preset
from rankbook.parallel.mesh import Layout
from rankbook.parallel.pipeline import PipelinePlan, find_schedule
from rankbook.programs.number_types import positive_int
from rankbook.programs.options import Parser, from_namespace
from rankbook.programs.train_lm import syncing
from rankbook.programs.train_lm.mixture import Mixture, check_mixture, complete_mixture, in_config
from rankbook.programs.train_lm.syncing import Syncing
from rankbook.programs.train_lm.training_options import Training, check_compile, preset_defaults


@dataclass(frozen=True, kw_only=True)
class Options(Mixture, Syncing, Training):
    """What to train, on which mesh, and what to keep of it; checked.

    layout: the mesh of ranks. stages: of the pipeline, a multiple of `layout.pp`. The schedule and
    the number of microbatches are worked out.
    """

    layout: Layout
    stages: int


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        "torchrun ... -m rankbook.programs.train_lm",
        "Train a Transformer on WikiText-2 on any mesh of ranks. With --log-file run.jsonl and no "
        "--checkpoint, the state is kept in the folder run, where --resume finds it.",
        Training,
    )
    add = p.add_argument
    mesh = "pp=2,dp=2,tp=2: stages, replicas, parts of a layer; cp: parts of a sequence; ep: "
    mesh += "replicas with experts of their own; 1 each if left out (all in dp)"
    add("--mesh", metavar="SIZES", help=mesh)
    shard = "fsdp: the replicas share one copy of the states; a number: so many of them do (none)"
    add("--shard", default="none", metavar="none|fsdp|N", help=shard)
    passes = "without a pipeline: backward passes whose gradients are added up for a step (1)"
    add("--grad-accum", type=positive_int, metavar="N", help=passes)
    stages = "of the pipeline, with several a process (as many as pp)"
    add("--stages", type=positive_int, help=stages)
    p.add_options(Syncing)
    p.add_options(Mixture)
    add("--no-checkpoint", action="store_true", help="keep no state, also with --log-file")
    return p


def read(arguments: list[str], world_size: int) -> Options:
    """The options for `world_size` ranks, completed.

    Raises ValueError, in one sentence, for what cannot be meant, or cannot be.
    """
    parsed = parser().parse_args(arguments)
    layout = Layout.parse(parsed.mesh or f"dp={world_size}", parsed.shard)
    if layout.ranks != world_size:
        needs = f"{layout.ranks} rank{'s' * (layout.ranks > 1)}"
        raise ValueError(
            f"--mesh {layout} needs {needs}, and torchrun has started {world_size}; start "
            f"{layout.ranks} (nodes x --nproc-per-node), or use a mesh of {world_size}"
        )
    made = {"layout": layout, "checkpoint": kept_in(parsed)}
    made |= preset_defaults(parsed) | syncing.outer_defaults(parsed) | complete_mixture(parsed)
    plan = make_plan(parsed, layout)
    made |= {n: getattr(plan, n) for n in ("schedule", "microbatches", "stages")}
    options = from_namespace(Options, parsed, **made)
    check(options, plan)
    return options


def kept_in(parsed: Any) -> Path | None:
    """The folder of the states: as named, or beside the log file and called like it.

    Raises ValueError where there is to be none, and one is needed.
    """
    if parsed.no_checkpoint:
        if parsed.checkpoint or parsed.resume:
            other = "--checkpoint" if parsed.checkpoint else "--resume"
            raise ValueError(f"--no-checkpoint keeps nothing, and {other} needs what is kept")
        return None
    log = parsed.log_file
    if parsed.checkpoint or log is None:
        if parsed.resume and not parsed.checkpoint:
            raise ValueError(
                "--resume needs --checkpoint DIR, or the --log-file of the run to go on with"
            )
        return parsed.checkpoint
    return log.with_suffix("") if log.suffix else log.with_name(f"{log.name}.run")


def make_plan(parsed: Any, layout: Layout) -> PipelinePlan:
    """The pipeline's plan, with what is left open chosen. Raises ValueError."""
    several = parsed.stages is not None and parsed.stages != layout.pp
    schedule = parsed.schedule or ("interleaved1f1b" if several else "1f1b")
    stages = parsed.stages or find_schedule(schedule).stages_per_rank * layout.pp
    microbatches = _microbatches(parsed, stages)
    return PipelinePlan(schedule, layout.pp, microbatches, layout.replicas, stages)


def _microbatches(parsed: Any, stages: int) -> int:
    """How many there are of a replica's rows: a pipeline's, or those of gradient accumulation."""
    if parsed.grad_accum and parsed.microbatches:
        raise ValueError(
            "--grad-accum and --microbatches both say into how many parts the rows are cut; use "
            f"{'--grad-accum' if stages == 1 else '--microbatches'}"
        )
    if parsed.grad_accum and stages > 1:
        raise ValueError(
            f"--grad-accum is for a mesh without a pipeline, and this one has {stages} stages, "
            f"whose schedule adds up gradients itself; use --microbatches {parsed.grad_accum}"
        )
    return parsed.grad_accum or parsed.microbatches or (1 if stages == 1 else max(4, stages))


def check(options: Options, plan: PipelinePlan) -> None:
    """Raise ValueError where the mesh suits neither the model, nor the batch, nor the window."""
    config = preset(options.preset, vocab_size=1, **in_config(options))
    plan.check_model(config)
    options.layout.check_model(config)
    plan.check_batch(options.batch)
    options.layout.check_window(options.window)
    check_compile(options.compile, plan.schedule)
    check_mixture(options, options.compile, plan.microbatches)
    syncing.check(options, options.layout, options.experts)
