"""The program wrappings: its own four ranks, with torch and numpy only, as text and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rankbook.programs.wrappings.text import tables

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
# as in an environment with torch and numpy only: importing one of these would raise ImportError
BARE = (
    "import sys; sys.modules |= dict.fromkeys(('matplotlib', 'IPython', 'ipykernel',"
    " 'zmq', 'psutil', 'executing', 'traitlets', 'transformers'));"
    "from rankbook.programs.wrappings import main; __name__ == '__main__' and main()"
)


def program(*options: str, start=("-m", "rankbook.programs.wrappings")):
    left = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    left |= {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *start, *options]
    return subprocess.run(
        command, env=left, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What it says of two wrappings under two schedules, one of which needs 4 microbatches."""
    given = ["--schedule", "zbv", "dualpipev", "--wrapping", "fully_shard", "DDP static_graph"]
    bare = tmp_path_factory.mktemp("bare") / "bare.py"
    bare.write_text(BARE, encoding="utf-8")
    done = program(*given, "--microbatches", "2", "4", "--json", start=(str(bare),))
    assert done.returncode == 0, done.stderr  # what is wrong is what was asked for
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)  # nothing else is on standard output


def test_json_says_what_came_out_of_which_torch(report):
    assert report["torch"] == torch.__version__ and "CPU cores" in report["where"]
    assert [(r["microbatches"], r["schedule"], r["wrapping"], r["verdict"])
            for r in report["rows"]] == [
        (2, "zbv", "fully_shard", "right"),
        (2, "zbv", "DDP static_graph", "SILENTLY WRONG"),
        (2, "dualpipev", "fully_shard", "cannot run"),
        (2, "dualpipev", "DDP static_graph", "cannot run"),
        (4, "zbv", "fully_shard", "right"),
        (4, "zbv", "DDP static_graph", "SILENTLY WRONG"),
        (4, "dualpipev", "fully_shard", "right"),
        (4, "dualpipev", "DDP static_graph", "SILENTLY WRONG"),
    ]  # fmt: skip
    for row in report["rows"]:
        assert len(row["errors"]) == (0 if row["verdict"] == "cannot run" else 2)
        assert bool(row["message"]) == (row["verdict"] == "cannot run")


def test_the_same_as_text(report):
    first, *parts = tables(report).split("\n\n")
    assert first.startswith(f"torch {torch.__version__}, ")
    two, table, four, other, refused = parts
    assert [two, four] == ["2 microbatches", "4 microbatches"]
    assert [line.split() for line in table.splitlines()] == [
        ["zbv", "dualpipev"],
        ["fully_shard", "right", "-"],
        ["DDP", "static_graph", "WRONG", "69%", "-"],
    ]
    assert other.splitlines()[1].split() == ["fully_shard", "right", "right"]
    assert refused.startswith("-  schedule dualpipev needs at least as many microbatches as stages")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--wrapping", "FSDP"], "wrappings: argument --wrapping: invalid choice: 'FSDP'"),
        (["--microbatches", "none"], "wrappings: argument --microbatches: none is no whole number"),
    ],
)
def test_bad_options_are_one_sentence(options, sentence):
    done = program(*options)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(sentence) and "Traceback" not in done.stderr
