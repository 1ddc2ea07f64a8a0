"""Any mesh trains as one process does, goes on on any other, and says what cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.train_lm_ranks import TEXT, logged, train_compiled, train_each

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
SMALL = "--batch 16 --window 16 --evaluate-every 3 --evaluate-on 2"
# Another order of sums: float64 rounds a loss of about 8, and each gradient, by 2^-53 of its size
# at each addition. Over the 16 x 16 tokens of a batch such errors grow with the root: 1.4e-14
# a step. AdamW may magnify them, a thousandfold and more; what is wrong is wrong by 1e-5 and more.
TOLERANCE = 1e-9
# rows of 26 and 22 tokens: a whole window and one of 9, or 5, which tp=2 does not divide
WHOLE = "--batch 200 --window 16 --microbatches 4 --steps 1 --evaluate-on 99"
# that every layout computes what one process computes is tested by test_mesh.py; here, that the
# program's options reach it
MESHES = {
    2: ["dp=2", "cp=2"],
    4: [
        "pp=2,tp=2 --schedule zbv", "dp=4 --shard 2", "dp=2,tp=2 --shard fsdp --stages 4",
        "dp=2,cp=2 --shard fsdp",
    ],
    8: ["pp=2,dp=2,tp=2", "pp=2,dp=4 --shard 2 --schedule interleavedzb"],
}  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def losses(folder: Path, ranks: int, lines: list[str], cache: Path) -> list[tuple[dict, dict]]:
    """By line of options: the losses by step, and those of the evaluations."""
    logs = [folder / f"{number}.jsonl" for number in range(len(lines))]
    words = [f"{SMALL} {line} --log-file {log}" for line, log in zip(lines, logs, strict=True)]
    run_ranks(train_each, folder, ranks, ranks, words, str(cache))
    return [logged(log) for log in logs]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory, cache):
    """Six steps; the evaluations are those after the last, after the first three, and of WHOLE."""
    folder = tmp_path_factory.mktemp("one")
    lines = ["--steps 6", "--steps 3", WHOLE]
    lines = [f"--mesh dp=1 --no-checkpoint {line}" for line in lines]
    (steps, six), (first, three), (_, whole) = losses(folder, 1, lines, cache)
    assert sorted(steps) == [1, 2, 3, 4, 5, 6] and steps[6] < steps[1] - 0.3
    assert first == {step: steps[step] for step in (1, 2, 3)}  # to the bit
    return steps, {3: three, 6: six, "whole": whole}


@pytest.mark.parametrize("ranks", MESHES)
def test_every_mesh_trains_as_one_process(ranks, tmp_path, cache, one_process):
    steps, assessed = one_process
    lines = [f"--no-checkpoint --steps 3 --mesh {mesh}" for mesh in MESHES[ranks]]
    for mesh, found in zip(MESHES[ranks], losses(tmp_path, ranks, lines, cache), strict=True):
        assert sorted(found[0]) == [1, 2, 3], mesh
        for step, loss in found[0].items():
            assert loss == pytest.approx(steps[step], abs=TOLERANCE), (mesh, step)
        assert found[1] == pytest.approx(assessed[3], abs=TOLERANCE), mesh


def test_compiled_layers_leave_messages_alone(tmp_path, cache, one_process):
    line = f"{SMALL} --no-checkpoint --steps 2 --mesh cp=2 --log-file {tmp_path}/run.jsonl"
    run_ranks(train_compiled, tmp_path, 2, 2, [line], str(cache))
    found, _ = logged(tmp_path / "run.jsonl")
    assert found == pytest.approx({s: one_process[0][s] for s in (1, 2)}, abs=TOLERANCE)


def test_the_last_window_of_a_text_counts_by_its_tokens(tmp_path, cache, one_process):
    """It is shorter, no multiple of tp, and of its 9 or 5 tokens a rank of cp may have none."""
    lines = [f"--mesh {mesh} --no-checkpoint {WHOLE}" for mesh in ("pp=2,tp=2", "cp=4")]
    for _, found in losses(tmp_path, 4, lines, cache):
        assert found == pytest.approx(one_process[1]["whole"], abs=TOLERANCE)


def go_on(folder: Path, cache: Path, turns: list[tuple[int, list[str]]]) -> tuple[dict, dict]:
    """One run, with one log: so many ranks train for each line of options, and so on."""
    words = f"{SMALL} --log-file {folder}/run.jsonl"
    for turn, (ranks, lines) in enumerate(turns):
        of_turn = folder / "ranks" / str(turn)
        of_turn.mkdir(parents=True)
        work = [f"{words} {line}" for line in lines]
        run_ranks(train_each, of_turn, ranks, ranks, work, str(cache))
    return logged(folder / "run.jsonl")


def test_sequences_are_cut_in_one_run_and_whole_in_the_next(tmp_path, cache, one_process):
    steps, assessed = one_process
    turns = [
        (4, ["--mesh cp=4 --steps 2"]),
        (1, ["--mesh dp=1 --steps 3 --resume"]),
        (
            4,
            [
                "--mesh dp=2,cp=2 --shard fsdp --steps 5 --resume",
                "--mesh pp=2,cp=2 --steps 6 --resume",
            ],
        ),
    ]
    found, last = go_on(tmp_path, cache, turns)
    assert found == pytest.approx(steps, abs=TOLERANCE)
    assert last == pytest.approx(assessed[6], abs=TOLERANCE)


def test_a_run_goes_on_on_other_meshes(tmp_path, cache, one_process):
    """Saved by default beside the log; one log for all."""
    steps, assessed = one_process
    turns = [
        (
            4,
            [
                "--mesh dp=2,tp=2 --shard fsdp --steps 2",
                "--mesh pp=2,dp=2 --schedule zbv --steps 3 --resume",
            ],
        ),
        (2, ["--mesh tp=2 --steps 5 --resume"]),
        (1, ["--mesh dp=1 --steps 6 --resume"]),
    ]
    found, last = go_on(tmp_path, cache, turns)
    assert found == pytest.approx(steps, abs=TOLERANCE)
    assert last == pytest.approx(assessed[6], abs=TOLERANCE)
    records = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    starts = [record["start"] for record in records if "start" in record]
    assert [start["mesh"] for start in starts] == ["dp=2,tp=2", "pp=2,dp=2", "tp=2", "dp=1"]
    assert [start["from step"] for start in starts] == [0, 2, 3, 5]
    assert [start["shard"] for start in starts] == [2, 1, 1, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks", "run", "run.jsonl"]


def torchrun(ranks: int, options: str, folder: Path, cache: Path) -> subprocess.CompletedProcess:
    """The program as a user starts it, in `folder`, but for its 64 bits."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), "-m", "tests.distributed.in_64_bits"]
    command += ["rankbook.programs.train_lm"]
    environment = {
        **os.environ, **TEXT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1",
        "RANKBOOK_CACHE": str(cache),
    }  # fmt: skip
    return subprocess.run(
        [*command, *options.split()],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip


def test_three_dimensions_under_torchrun(tmp_path, cache):
    line = "--batch 16 --window 16 --steps 2"
    run = torchrun(8, f"{line} --log-file run.jsonl --mesh {MESHES[8][0]}", tmp_path, cache)
    assert run.returncode == 0, run.stderr
    found, assessed = logged(tmp_path / "run.jsonl")
    assert not assessed and run.stdout.count(f"step 2: loss {found[2]:.3f}") == 1
    assert "mesh pp=2,dp=2,tp=2, 2 stages under 1f1b, 4 microbatches, from step 0" in run.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.jsonl"]
    again = torchrun(1, "--mesh dp=1 --log-file run.jsonl", tmp_path, cache)
    assert one_sentence(again) == (
        "train_lm: run holds a run; go on with it by --resume, or name another folder"
    )
    alone = torchrun(1, f"{line} --log-file alone.jsonl --mesh dp=1", tmp_path, cache)
    assert alone.returncode == 0, alone.stderr
    assert found == pytest.approx(logged(tmp_path / "alone.jsonl")[0], abs=TOLERANCE)


def test_a_mesh_that_cannot_be_ends_all_ranks_with_one_sentence(tmp_path, cache):
    run = torchrun(2, "--mesh pp=2,dp=2 --log-file run.jsonl", tmp_path, cache)
    assert one_sentence(run) == (
        "train_lm: --mesh pp=2,dp=2 needs 4 ranks, and torchrun has started 2; start 4 (nodes x "
        "--nproc-per-node), or use a mesh of 2"
    )
    assert not list(tmp_path.iterdir())


def one_sentence(run: subprocess.CompletedProcess) -> str:
    """What the program said, in one line and without a traceback; it must have ended badly."""
    assert run.returncode != 0
    said = [line for line in run.stderr.splitlines() if line.startswith("train_lm")]
    assert len(said) == 1, run.stderr
    assert "exitcode  : 2" in run.stderr and "rankbook/programs" not in run.stderr
    return said[0]
