"""`make gpu-records` where there is no GPU: parts, resuming, what is lacking; then a rehearsal."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import record
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import alive, equality, meshes, tokens
from benchmarks.gpu.parts import MORE, Part, parts
from benchmarks.gpu.rows import Rows
from rankbook.programs.train_lm.options import read
from rankbook.speed import reason_to_skip
from rankbook.speed.recipes import recipe
from rankbook.speed.sizes import SIZES, size
from tests.unit.speed.test_proof import SMALL

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")


@pytest.fixture
def results(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def test_every_part_ends_within_eight_minutes():
    assert all(part.minutes <= 8 for part in parts(False, "results"))
    assert [part.name for part in parts(False, "r")] == [part.name for part in parts(True, "r")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would measure")
def test_without_a_gpu_it_is_one_sentence(capsys):
    for main in (program.main, lambda line: alive.main(line)):
        with pytest.raises(SystemExit) as end:
            main([])
        assert end.value.code == 2
        assert "torch sees no GPU here; --" in capsys.readouterr().err


def test_the_list_runs_nothing(capsys, results):
    assert program.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "ladder     not yet       the recipes, full size" in lines
    assert len(lines) == len(parts(False, ""))


@pytest.mark.parametrize(
    ("code", "state"), [("0", "done"), (str(MORE), "more to do"), ("1", "failed"), ("2", "failed")]
)
def test_how_a_part_ended_is_kept(code, state, tmp_path):
    part = Part("ladder", "about", "timeit", ("-n1", "-r1", f"import os; os._exit({code})"))
    states = program.State(tmp_path / "state.json")
    states.note(part, program.run(part))
    assert program.State(tmp_path / "state.json").said(part) == state


def test_a_part_that_takes_too_long_is_ended_and_goes_on_later():
    part = Part("ladder", "about", "timeit", ("-n1", "-r1", "import time; time.sleep(60)"), 0.005)
    assert program.run(part)["state"] == "more to do"


def test_rows_are_written_one_by_one_and_not_measured_again(results, capsys):
    calls = []

    def measured():
        calls.append(1)
        return {"ms": 3}

    def lacking():
        raise LookupError("no GPU here")

    def broken():
        raise RuntimeError("no kernel\nand so on")

    rows = Rows("try-gpu-1", "what", CPU)
    for name, work in (("a", measured), ("b", lacking), ("c", broken)):
        rows.measure(name, work)
        written = json.loads((results / "try-gpu-1.json").read_text("utf-8"))
        assert written["rows"][-1]["row"] == name and written["kind"] == "CPU"
    assert written["rows"] == [
        {"row": "a", "ms": 3},
        {"row": "b", "skipped": "no GPU here"},
        {"row": "c", "error": "RuntimeError: no kernel"},
    ]
    assert rows.failed() == 1
    again = Rows("try-gpu-1", "what", CPU)
    assert again.measure("a", measured) == {"row": "a", "ms": 3} and len(calls) == 1
    assert "c" not in again.rows  # what failed is tried again


def test_what_is_no_mistake_of_the_programs_is_skipped(capsys):
    def lacking():
        raise ImportError("no module named IPython")

    assert alive.attempt("ranks", lacking)
    assert not alive.attempt("ranks", lambda: 1 / 0)
    said = capsys.readouterr().out
    assert "ranks: skipped: no module named IPython" in said
    assert "ranks: FAILED: ZeroDivisionError" in said


def test_equality_skips_what_the_device_lacks_and_catches_what_is_wrong(results):
    from rankbook.speed import synthetic
    from rankbook.speed.proof import trained

    if lacking := reason_to_skip(recipe("tf32"), CPU):
        with pytest.raises(LookupError, match=lacking):
            equality.compare(recipe("tf32"), None, None, CPU)
    reviews = synthetic(240, SMALL)
    row = equality.compare(recipe("sdpa"), trained(SMALL, reviews, steps=20), reviews, CPU)
    assert float(row["off"]) <= float(row["allowed"]) and "off by" in row["caught"]


def test_without_a_tokenizer_the_reviews_are_generated_and_say_so(tmp_path, monkeypatch, capsys):
    def lacking(chosen):
        raise ImportError("The tokenizer needs the package transformers")

    monkeypatch.setattr(tokens, "tokenised", lacking)
    monkeypatch.setitem(SIZES, "cpu", size("cpu", samples=4, validation=2, test=2, max_length=16))
    line = ["--size", "cpu", "--out", str(tmp_path / "tokens.npz")]
    assert tokens.main(line) == 0
    said = capsys.readouterr().out
    assert "generated reviews, since the tokenizer needs the package transformers" in said
    monkeypatch.setattr(tokens, "splits", None)  # what is there is not made again
    assert tokens.main(line) == 0


@pytest.mark.parametrize("package", alive.NOTEBOOK)
def test_the_magics_are_skipped_without_what_they_need(package, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    with pytest.raises(LookupError, match=f"{package}: not installed here; make test-gpu"):
        alive.magics()


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_mesh_that_is_to_be_tried_can_be(ranks, tmp_path):
    for line in meshes.meshes(ranks):
        for tiny in (False, True) if ranks <= 2 else (False,):
            words = meshes.command(line, ranks, tmp_path / "run.jsonl", tiny)
            start = words.index("rankbook.programs.train_lm") + 1
            options = read(words[start:], ranks)
            assert options.checkpoint is None and options.steps == meshes.STEPS
    assert meshes.largest(7) == 4 and meshes.largest(16) == 8


def test_a_row_of_a_mesh_leaves_the_first_steps_out():
    start = {"options": {"batch": 32, "window": 512}, "data": "made up"}
    paces = [1.0, 2.0, 3.0, 16384.0, 8192.0, 16384.0, 16384.0, 8192.0]
    steps = [{"loss": 9 - i, "tokens per second": pace} for i, pace in enumerate(paces)]
    found = meshes.row([{"start": start}, *steps])
    assert (found["ms"], found["tokens/s"]) == (1000.0, 16384)
    assert (found["first loss"], found["last loss"]) == (9, 2)


@pytest.mark.slow
@pytest.mark.long
def test_the_rehearsal_runs_every_program_to_its_end(tmp_path):
    """Twice as often as needed: the ladder stops after each row, as it would after its minutes."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--rehearse"],
        cwd=ROOT, capture_output=True, text=True, timeout=550, check=False,
        env=os.environ | {"PYTHONPATH": "src", "CXX": "no-such-compiler"},
    )  # fmt: skip
    assert done.returncode == MORE, done.stdout + done.stderr
    names = [part.name for part in parts(True, "")]
    assert [name for name in names if f"== {name}: failed" in done.stdout] == []
    assert "== ladder: more to do" in done.stdout
    assert all(f"== {name}: done" in done.stdout for name in names if name != "ladder")
    assert "this is nccl's, and there is no GPU here" in done.stdout
