"""The minimal programs: what each prints, beside what it prints with the cure. One process each."""

import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.parallel.trials.mechanisms import MECHANISMS

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
# program: the words that ask for the failure, and for the cure; what is then printed
PRINTS = {
    "fully_shard_each_layer.py": {
        (): [
            "stage 0: 4 of 4 parameters have a gradient",
            "stage 1: 0 of 4 parameters have a gradient",
        ],
        ("keep",): [
            "stage 0: 4 of 4 parameters have a gradient",
            "stage 1: 4 of 4 parameters have a gradient",
        ],
    },
    "ddp_armed_twice.py": {
        (): ["step 1: done", "step 2: model param size is: 2 versus rebuilt params size of: 4"],
        ("shapes",): ["step 1: done", "step 2: done"],
    },
    "ddp_split_backward.py": {
        ("ScheduleZBVZeroBubble",): ["reductions: stage 0 1 stage 1 0"],
        ("ScheduleInterleaved1F1B",): ["reductions: stage 0 1 stage 1 1"],
    },
    "ddp_static_graph.py": {
        ("static",): ["reductions: stage 0 1 stage 1 0"],
        (): ["reductions: stage 0 1 stage 1 1"],
    },
}


def run(*arguments):
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=HERE)


@pytest.mark.parametrize("program", PRINTS)
def test_the_failure_and_its_cure(program):
    for words, lines in PRINTS[program].items():
        done = run(program, *words)
        assert done.stdout.splitlines() == lines, done.stderr


def test_all_parameters_are_unused_only_where_the_last_backward_is_split(tmp_path):
    split = run("ddp_all_unused.py", "ScheduleDualPipeV", tmp_path / "split")
    assert "RuntimeError: Encountered gradient which is undefined" in split.stderr
    assert "step 1: done" in split.stdout and "step 2: done" not in split.stdout
    whole = run("ddp_all_unused.py", "ScheduleInterleaved1F1B", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert sorted(whole.stdout.splitlines()) == [
        f"rank {rank}, step {step}: done" for rank in (0, 1) for step in (1, 2)
    ]


def test_every_mechanism_has_a_short_program_of_plain_torch():
    programs = {path.name for path in HERE.glob("*.py")} - {"__init__.py", Path(__file__).name}
    assert {mechanism.program for mechanism in MECHANISMS.values()} == programs
    assert programs == {*PRINTS, "ddp_all_unused.py"}
    for name in programs:
        text = (HERE / name).read_text("utf-8")
        assert len(text.splitlines()) <= 30 and "rankbook" not in text, name
