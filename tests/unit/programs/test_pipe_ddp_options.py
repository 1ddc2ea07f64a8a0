"""Wrong options are one sentence; processes are shared out as the options say."""

from pathlib import Path

import pytest

from rankbook.programs.pipe_ddp.options import make_plan, read, resume_invariants
from rankbook.programs.resuming import check_same


def plan(line: str, world_size: int):
    return make_plan(read(line.split()), world_size)


@pytest.mark.parametrize(
    ("line", "world_size", "expected"),
    [
        # schedule, ranks, replicas, stages, microbatches
        ("", 4, ("1f1b", 2, 2, 2, 4)),
        ("", 1, ("interleaved1f1b", 1, 1, 2, 4)),
        ("", 2, ("1f1b", 2, 1, 2, 4)),
        ("--replicas 2", 2, ("interleaved1f1b", 1, 2, 2, 4)),
        ("--stages 3 --replicas 2", 2, ("interleaved1f1b", 1, 2, 3, 4)),
        ("--stages 1 --batch 48", 4, ("1f1b", 1, 4, 1, 4)),
        ("--stages 8", 4, ("interleaved1f1b", 4, 1, 8, 8)),
        ("--stages 4 --replicas 2", 4, ("interleaved1f1b", 2, 2, 4, 4)),
        ("--stages 4 --schedule zbv", 4, ("zbv", 2, 2, 4, 4)),
        ("--stages 2 --schedule dualpipev", 1, ("dualpipev", 1, 1, 2, 4)),
        ("--stages 2 --schedule gpipe --microbatches 5", 4, ("gpipe", 2, 2, 2, 5)),
        ("--stages 4 --schedule loopedbfs --preset original", 1, ("loopedbfs", 1, 1, 4, 4)),
    ],
)
def test_plan(line, world_size, expected):
    made = plan(line, world_size)
    assert (made.schedule, made.ranks, made.replicas, made.stages, made.microbatches) == expected
    assert made.ranks * made.replicas == world_size


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--steps 0", "argument --steps: 0 is no whole number of 1 or more"),
        ("--lr nan", "argument --lr: nan is no number above 0"),
        ("--schedule pipedream", "argument --schedule: invalid choice: 'pipedream'"),
        ("--stage 2", "unrecognized arguments: --stage 2"),
        ("--resume", "--resume needs --checkpoint DIR"),
        ("--steps 3 --epochs 1", "--steps and --epochs both say when to stop; use one of them"),
        (
            "--stages 3",
            "--stages 3 suits no pipeline of several of 4 processes; use --stages 4, or "
            "--replicas 4 for as many copies of the whole model",
        ),
        (
            "--schedule zbv",
            "--stages 2 suits no pipeline of several of 4 processes; use --stages 8",
        ),
        ("--replicas 3", "--replicas 3 needs a multiple of 3 processes, not 4"),
        (
            "--schedule gpipe --stages 8",
            "gpipe runs one stage per rank, not 8 stages on 4",
        ),
        ("--stages 16", "16 stages cannot share 8 layers; use 8 stages or fewer"),
        ("--batch 6", "a batch of 6 is not divisible by 2 replicas x 4 microbatches"),
        ("--compile --stages 4 --schedule zbv", "--compile does not go with schedule zbv"),
        ("--microbatches 1 --batch 2 --schedule 1f1b", "needs at least as many microbatches"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence):
    with pytest.raises(ValueError) as told:
        plan(line, 4)
    assert sentence in str(told.value) and "\n" not in str(told.value)


def test_a_run_goes_on_with_its_own_options():
    mine = resume_invariants(read(["--lr", "0.5", "--checkpoint", "runs/a"]))
    check_same(mine, resume_invariants(read(["--lr", "0.5", "--stages", "4"])), Path("runs/a"))
    with pytest.raises(ValueError, match=r"--lr is 0.5, but the run in runs/a has 0.006; give"):
        check_same(mine, resume_invariants(read([])), Path("runs/a"))
