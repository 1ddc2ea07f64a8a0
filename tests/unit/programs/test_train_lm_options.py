"""Every mesh that cannot be is one sentence, said before any rank waits for another."""

from pathlib import Path

import pytest

from rankbook.parallel.mesh import Layout
from rankbook.programs.pipe_ddp import options as pipe_ddp
from rankbook.programs.resuming import check_same
from rankbook.programs.train_lm.options import parser, read
from rankbook.programs.train_lm.training_options import resume_invariants


@pytest.mark.parametrize(
    ("line", "ranks", "layout", "pipeline"),
    [
        # pipeline: schedule, stages, microbatches
        ("", 1, Layout(), ("1f1b", 1, 1)),
        ("", 4, Layout(dp=4), ("1f1b", 1, 1)),
        ("--mesh pp=2,dp=2,tp=2", 8, Layout(2, 2, 2), ("1f1b", 2, 4)),
        ("--mesh tp=2,pp=2", 4, Layout(pp=2, tp=2), ("1f1b", 2, 4)),
        ("--mesh dp=4 --shard fsdp", 4, Layout(dp=4, shard=4), ("1f1b", 1, 1)),
        ("--mesh dp=4 --shard 2", 4, Layout(dp=4, shard=2), ("1f1b", 1, 1)),
        ("--mesh dp=4 --shard none", 4, Layout(dp=4), ("1f1b", 1, 1)),
        ("--shard fsdp", 2, Layout(dp=2, shard=2), ("1f1b", 1, 1)),
        ("--mesh dp=2 --grad-accum 4", 2, Layout(dp=2), ("1f1b", 1, 4)),
        ("--mesh dp=2 --microbatches 4", 2, Layout(dp=2), ("1f1b", 1, 4)),
        ("--mesh pp=2 --stages 8", 2, Layout(pp=2), ("interleaved1f1b", 8, 8)),
        ("--mesh pp=2 --schedule zbv", 2, Layout(pp=2), ("zbv", 4, 4)),
        ("--mesh pp=8,tp=4", 32, Layout(pp=8, tp=4), ("1f1b", 8, 8)),
        ("--mesh dp=1 --stages 4", 1, Layout(), ("interleaved1f1b", 4, 4)),
        ("--mesh dp=8,tp=2 --preset original", 16, Layout(dp=8, tp=2), ("1f1b", 1, 1)),
        ("--mesh cp=4", 4, Layout(cp=4), ("1f1b", 1, 1)),
        ("--mesh cp=2,pp=2 --shard fsdp", 4, Layout(pp=2, cp=2), ("1f1b", 2, 4)),
    ],
)
def test_a_mesh_that_can_be(line, ranks, layout, pipeline):
    options = read(line.split(), ranks)
    assert options.layout == layout and layout.ranks == ranks
    assert (options.schedule, options.stages, options.microbatches) == pipeline


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--mesh pp=2,sp=2", "'sp=2' names no dimension of a mesh; there are pp (the stages of a"),
        ("--mesh 2x2x2", "'2x2x2' names no dimension of a mesh"),
        ("--mesh pp=2,dp=2,pp=2", "pp is given twice in 'pp=2,dp=2,pp=2'; give it once"),
        ("--mesh tp=two", "tp=two is no whole number of 1 or more"),
        ("--mesh dp=0", "dp=0 is no whole number of 1 or more"),
        ("--mesh dp=-2", "dp=-2 is no whole number of 1 or more"),
        ("--mesh dp=", "dp= is no whole number of 1 or more"),
        (
            "--mesh pp=2,dp=2",
            "--mesh pp=2,dp=2 needs 4 ranks, and torchrun has started 8; start 4 (nodes x "
            "--nproc-per-node), or use a mesh of 8",
        ),
        ("--mesh dp=1", "--mesh dp=1 needs 1 rank, and torchrun has started 8; start 1"),
        ("--mesh tp=8", "tp=8 does not divide the model's heads, 4;"),
        ("--mesh pp=4,tp=2 --window 35", "tp=2 does not divide sequences of 35 tokens"),
        ("--mesh cp=8 --window 40", "sequences of 40 tokens are not cut into 2 x cp=8 equal parts"),
        ("--mesh cp=4,tp=2 --window 24", "into 2 x cp=4 x tp=2 equal parts; use a multiple of 16"),
        ("--mesh cp=8 --preset original", "cp=8 cuts the attention, whose weights cannot be dropp"),
        ("--mesh pp=8 --stages 16", "16 stages cannot share 8 layers; use 8 stages or fewer"),
        ("--mesh pp=4,dp=2 --stages 6", "the same number of stages on each rank, not 6 stages"),
        ("--mesh dp=8 --batch 36", "a batch of 36 is not divisible by 8 replicas x 1 microbatches"),
        ("--mesh dp=8 --shard 3", "groups of 3 that share one copy do not divide dp=8; use a"),
        ("--mesh tp=4,dp=2 --shard 4", "groups of 4 that share one copy do not divide dp=2"),
        ("--mesh dp=8 --shard zero3", "shard 'zero3' is unknown; use none, fsdp, or how many"),
        ("--mesh pp=8 --schedule zbv", "16 stages cannot share 8 layers"),
        ("--mesh pp=4,dp=2 --stages 8 --schedule gpipe", "gpipe runs one stage per rank, not 8"),
        ("--mesh pp=4,dp=2 --microbatches 2", "1f1b needs at least as many microbatches as"),
        ("--mesh pp=4,dp=2 --grad-accum 8", "this one has 4 stages, whose schedule adds up grad"),
        ("--grad-accum 2 --microbatches 2", "the rows are cut; use --grad-accum"),
        ("--mesh pp=8 --grad-accum 8 --microbatches 8", "the rows are cut; use --microbatches"),
        ("--grad-accum 0", "argument --grad-accum: 0 is no whole number of 1 or more"),
        ("--mesh pp=4,dp=2 --schedule zbv --compile", "--compile does not go with schedule zbv"),
        ("--schedule pipedream", "argument --schedule: invalid choice: 'pipedream'"),
        ("--steps 3 --epochs 1", "--steps and --epochs both say when to stop; use one of them"),
        ("--resume", "--resume needs --checkpoint DIR, or the --log-file of the run to go on"),
        ("--resume --no-checkpoint", "--no-checkpoint keeps nothing, and --resume needs what is"),
        ("--no-checkpoint --checkpoint a", "--no-checkpoint keeps nothing, and --checkpoint"),
    ],
)
def test_one_that_cannot_be_is_one_sentence(line, sentence):
    with pytest.raises(ValueError) as told:
        read(line.split(), 8)
    assert sentence in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("", None),
        ("--log-file logs/run.jsonl", Path("logs/run")),
        ("--log-file logs/run", Path("logs/run.run")),
        ("--log-file run.jsonl --checkpoint kept", Path("kept")),
        ("--log-file run.jsonl --no-checkpoint", None),
        ("--log-file run.jsonl --resume", Path("run")),
    ],
)
def test_where_the_state_is_kept(line, folder):
    assert read(line.split(), 1).checkpoint == folder


def test_a_run_goes_on_on_another_mesh_with_its_own_options():
    mine = resume_invariants(read(["--lr", "0.5", "--mesh", "pp=2,tp=2", "--shard", "none"], 4))
    check_same(
        mine,
        resume_invariants(read(["--lr", "0.5", "--mesh", "dp=4", "--shard", "fsdp"], 4)),
        Path("a"),
    )
    with pytest.raises(ValueError, match=r"--lr is 0.5, but the run in a has 0.006; give"):
        check_same(mine, resume_invariants(read([], 1)), Path("a"))


def test_rounding_makes_no_long_steps_where_meshes_are_compared():
    assert read([], 1).eps == 1e-5 and read(["--preset", "original"], 1).eps == 1e-8
    assert read(["--eps", "1e-7"], 1).eps == 1e-7


def test_nothing_is_evaluated_unless_asked_for_and_each_step_is_logged():
    options = read([], 1)
    assert options.evaluate_every is None and options.log_every == 1
    assert read(["--evaluate-every", "5"], 1).evaluate_every == 5


@pytest.mark.parametrize(
    ("line", "ranks", "mesh"),
    [
        ("--stages 2 --replicas 2", 4, "--mesh pp=2,dp=2 --microbatches 4"),
        ("--stages 4 --replicas 2 --schedule zbv", 4, "--mesh pp=2,dp=2 --stages 4 --schedule zbv"),
        ("", 1, "--mesh dp=1 --stages 2"),
        ("--stages 8 --preset original", 4, "--mesh pp=4 --stages 8 --preset original"),
    ],
)
def test_pipe_ddp_says_the_same_in_its_own_words(line, ranks, mesh):
    own = pipe_ddp.read(line.split())
    theirs = pipe_ddp.as_mesh(own, pipe_ddp.make_plan(own, ranks))
    defaults = "--batch 40 --window 35 --evaluate-every 50 --log-every 10 --eps 1e-8"
    assert theirs == read([*mesh.split(), *defaults.split()], ranks)


def test_what_pipe_ddp_takes_train_lm_takes():
    def names(p):
        return {action.option_strings[-1] for action in p._actions}

    assert names(pipe_ddp.parser()) - names(parser()) == {"--replicas"}
    own = {"--mesh", "--shard", "--no-checkpoint", "--sync", "--outer-lr", "--outer-momentum"}
    own |= {"--experts", "--top-k", "--capacity", "--balance", "--grad-accum"}
    assert names(parser()) - names(pipe_ddp.parser()) == own
