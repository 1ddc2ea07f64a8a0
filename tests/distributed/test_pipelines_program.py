"""Chapter 21's program under plain torchrun: the line that the chapter prints, and wrong input."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from rankbook.programs import ending
from rankbook.programs.pipelines import run as pipelines

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "rankbook.programs.pipelines"


def torchrun(ranks: int, *arguments: str) -> subprocess.CompletedProcess:
    options = ["--standalone", "--nproc-per-node", str(ranks), "-m", PROGRAM, *arguments]
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def printed_lines(language: str) -> list[str]:
    """The commands in the chapter's ``bash`` blocks."""
    notebook = json.loads((ROOT / f"chapters/{language}/21_pipelines.ipynb").read_text("utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    return re.findall(r"^```bash\n(torchrun .*?)\n```", text, re.MULTILINE | re.DOTALL)


def test_the_printed_line():
    (line,) = printed_lines("en")
    assert printed_lines("zh") == [line]
    program, standalone, count, ranks, module, name, *arguments = shlex.split(line)
    assert [program, standalone, count] == ["torchrun", "--standalone", "--nproc-per-node"]
    assert [module, name] == ["-m", PROGRAM]
    run = torchrun(int(ranks), *arguments)
    assert run.returncode == 0, run.stderr
    assert_equal_losses(run.stdout, int(ranks))


@pytest.mark.parametrize("name", ["gpipe", "interleavedzb"])
def test_other_schedules(name):
    run = torchrun(2, "--schedule", name)
    assert run.returncode == 0, run.stderr
    assert_equal_losses(run.stdout, 2)


def assert_equal_losses(output: str, ranks: int) -> None:
    """Every rank printed the same three losses, which fall; the program compared them itself."""
    found = re.findall(r"'losses': \[([^]]*)\]", output)
    assert len(found) == ranks and len(set(found)) == 1, output
    first, second, third = map(float, found[0].split(","))
    assert first > second > third


@pytest.fixture
def told(monkeypatch):
    """Errors of the program are raised: it would end this process with status 2."""

    def fail(error, program):
        assert program == "pipelines"
        raise error

    monkeypatch.setattr(ending, "fail", fail)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--schedule", "pipedream"], "schedule 'pipedream' is unknown; use gpipe, 1f1b"),
        (["--microbatches", "1"], "schedule 1f1b needs at least as many microbatches as stages"),
        (["--microbatches", "5"], "a batch of 16 is not divisible by 1 replicas x 5 microbatches"),
        (["--microbatches", "many"], "argument --microbatches: many is no whole number of 1 or mo"),
        (["--microbatch", "8"], "unrecognized arguments: --microbatch 8"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence, told, monkeypatch):
    """Before any rank talks to another: no process group is made."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError) as error:
        pipelines.main(arguments)
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)
    assert not dist.is_initialized()


def test_without_torchrun_it_says_so(told, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match="no process group is described here; start it with torch"):
        pipelines.main([])


def test_wrong_input_ends_all_ranks_with_one_sentence():
    run = torchrun(2, "--microbatches", "1")
    assert run.returncode != 0
    said = [line for line in run.stderr.splitlines() if line.startswith("pipelines")]
    assert len(said) == 1, run.stderr  # rank 0 speaks for all
    assert said[0].startswith("pipelines: schedule 1f1b needs at least as many microbatches")
    assert "exitcode  : 2" in run.stderr and "rankbook/programs" not in run.stderr


def test_a_wrong_result_is_not_passed_over(told, monkeypatch, tmp_path):
    """The comparison fails when the control starts from other values."""

    def alone():
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/s", rank=0, world_size=1)
        return torch.device("cpu")

    def other(device, control=pipelines.in_one_process):
        monkeypatch.setattr(pipelines, "SEED", 1)
        return control(device)

    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(pipelines, "init", alone)
    monkeypatch.setattr(pipelines, "in_one_process", other)
    try:
        with pytest.raises(ArithmeticError, match=r"gpipe is off by .* from one process"):
            pipelines.main(["--schedule", "gpipe"])
    finally:
        dist.destroy_process_group()
