"""train_lm_trainer with and without torchrun: it trains alike, and refuses in one sentence."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.data.embedded import prose
from rankbook.programs.train_lm_trainer.options import read

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ["-m", "rankbook.programs.train_lm_trainer"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
LINES = 60  # two ranks share the last batch without filling it up


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train_lm")
    lines = [line for line in prose()["train"].split("\n") if line.strip()][:LINES]
    (folder / "text.txt").write_text("\n".join(lines), "utf-8")
    (folder / "short.txt").write_text("one line\n\n \n", "utf-8")
    (folder / "pickle.bin").write_bytes(b"ELF lines\n" * 9 + b"\0\n" * 9)
    return folder


DIES = """
import os, signal, sys
from rankbook.programs import train_lm_trainer
from rankbook.programs.train_lm_trainer import trainer

save = trainer.CheckpointedTrainer._save_checkpoint
def save_and_die(self, *args):
    save(self, *args)
    os.kill(os.getpid(), signal.SIGKILL)

trainer.CheckpointedTrainer._save_checkpoint = save_and_die
train_lm_trainer.main()
"""


def run(
    folder: Path, ranks: int, options: str, killed: bool = False
) -> subprocess.CompletedProcess:
    """The program to its end; with 0 ranks, in one process and without torchrun.

    killed: by SIGKILL, on all ranks, after its first save.
    """
    program = PROGRAM
    if killed:
        (folder / "dies.py").write_text(DIES)
        program = ["dies.py"]
    start = [*TORCHRUN, str(ranks)] if ranks else [sys.executable]
    left = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    left |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [*start, *program, *options.split()],
        env=left, cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def records(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def values(log: list[dict], name: str) -> list[float]:
    return [record[name] for record in log if name in record]


def test_the_program_takes_the_lines_that_page_16_prints():
    printed = {}
    for language in ("en", "zh"):
        path = ROOT / f"chapters/{language}/16_several_nodes.ipynb"
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        lines = re.findall(r"^```bash\n(torchrun .*?)\n```", text, re.MULTILINE | re.DOTALL)
        printed[language] = [line for line in lines if PROGRAM[1] in line]
    assert printed["en"] == printed["zh"] and len(printed["en"]) == 2
    for line in printed["en"]:
        options = shlex.split(line.replace("\\\n", " ").split(PROGRAM[1])[1])
        assert read(options, world_size=16).train_file == Path("train.txt")


@pytest.mark.parametrize(
    ("ranks", "options", "sentence"),
    [
        (2, "--train-file gone.txt", "there is no file gone.txt on this machine"),
        (2, "--train-file short.txt", "short.txt has 1 samples (lines that are not blank), and 2"),
        (0, "--train-file pickle.bin", "pickle.bin is no UTF-8 text: there are zero bytes in it"),
        (0, "--train-file text.txt --model no/such", "--model no/such is no folder with a causal"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(folder, ranks, options, sentence):
    ended = run(folder, ranks, options)
    assert ended.returncode != 0
    said = [line for line in ended.stderr.splitlines() if line.startswith("train_lm_trainer")]
    assert len(said) == 1 and sentence in said[0], ended.stderr
    assert "rankbook/programs" not in ended.stderr  # no traceback


@pytest.fixture(scope="module")
def alone(folder):
    options = "--train-file text.txt --valid-file short.txt --read first --steps 6 --log-every 1"
    ended = run(folder, 0, f"{options} --log-file alone.jsonl --output model")
    assert ended.returncode == 0, ended.stderr
    return ended, records(folder, "alone.jsonl")


def test_one_process_logs_and_says_what_it_does(alone, folder):
    ended, log = alone
    start = log[0]["start"]
    assert start["world size"] == 1 and start["nodes"] == 1
    assert start["bytes"]["text.txt"] == (folder / "text.txt").stat().st_size
    losses = values(log, "loss")
    assert len(losses) == 6 and losses[-1] < losses[0] - 0.5
    assert values(log, "samples") == [LINES]  # the text ends in step 4 of 6
    assert ended.stdout.count("step 6: validation loss") == 1
    assert ended.stderr.count("6/6  loss") == 1


def test_two_ranks_train_as_one_process(alone, folder):
    options = "--train-file text.txt --valid-file short.txt --read first --steps 6 --log-every 1"
    ended = run(folder, 2, f"{options} --log-file two.jsonl")
    assert ended.returncode == 0, ended.stderr
    log = records(folder, "two.jsonl")
    assert values(log, "loss") == pytest.approx(values(alone[1], "loss"), abs=1e-4)
    assert values(log, "valid_loss") == pytest.approx(values(alone[1], "valid_loss"), abs=1e-4)
    assert values(log, "samples") == [LINES]


def test_shares_with_workers_and_a_model_from_a_folder(alone, folder):
    """Every line once, though the last batches of ranks and workers are not full; it goes on."""
    options = "--workers 2 --accumulate 2 --steps 9 --log-every 1 --log-file shares.jsonl"
    ended = run(folder, 2, f"--train-file text.txt --model model {options}")
    assert ended.returncode == 0, ended.stderr
    log = records(folder, "shares.jsonl")
    assert set(values(log, "samples")) == {LINES}
    assert values(log, "loss")[0] < values(alone[1], "loss")[0] - 0.5  # the trained parameters


# dropout counts too: its random numbers are part of what is kept. A log of three steps begins
# before the save after step 7, and ends behind it; the text is over after step 4
RESUMED = "--train-file text.txt --model wet --save-every 7 --log-every 3 --steps 10 --seed 3"


@pytest.fixture(scope="module")
def wet(alone, folder):
    """The trained model, with dropout."""
    shutil.copytree(folder / "model", folder / "wet")
    config = folder / "wet" / "config.json"
    about = json.loads(config.read_text())
    config.write_text(json.dumps(about | {"attention_dropout": 0.2}))


def logged(folder: Path, name: str) -> dict[int, tuple]:
    """Loss, norm of the gradient and rate, by step."""
    log = records(folder, name)
    return {r["step"]: (r["loss"], r["norm"], r["lr"]) for r in log if "loss" in r}


@pytest.mark.parametrize(
    ("ranks", "more"),
    [(0, ""), (2, "--workers 1"), (2, "--read first --accumulate 2")],
    ids=["one process", "two ranks", "two ranks, rank 0 reads"],
)
def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(wet, folder, ranks, more):
    name = f"run{ranks}{len(more)}"
    whole = run(folder, ranks, f"{RESUMED} {more} --log-file {name}-whole.jsonl")
    assert whole.returncode == 0, whole.stderr

    options = f"{RESUMED} {more} --checkpoint {name}"
    killed = run(folder, ranks, f"{options} --log-file {name}.jsonl", killed=True)
    assert killed.returncode != 0
    assert [path.name[:13] for path in (folder / name).glob("step-*")] == ["step-00000007"]
    again = run(folder, ranks, f"{options} --resume --log-file {name}-again.jsonl")
    assert again.returncode == 0, again.stderr

    expected, found = logged(folder, f"{name}-whole.jsonl"), logged(folder, f"{name}-again.jsonl")
    assert list(expected) == [3, 6, 9, 10] and list(found) == [9, 10]  # the last in any case
    assert found == {step: expected[step] for step in (9, 10)}  # to the bit; 9 counts from step 7
    start = records(folder, f"{name}-again.jsonl")[0]["start"]
    assert start["from step"] == 7
    samples = [
        values(records(folder, f"{name}-{each}.jsonl"), "samples") for each in ("whole", "again")
    ]
    assert set(samples[0]) == {LINES} and samples[1] == samples[0][1:]  # each line once, as ever


def test_a_run_that_is_done_is_only_evaluated(wet, folder):
    """Of the run that was killed, in one process."""
    options = f"{RESUMED} --checkpoint run00 --resume --valid-file short.txt"
    done = run(folder, 0, f"{options} --log-file done.jsonl")
    assert done.returncode == 0, done.stderr
    log = records(folder, "done.jsonl")
    assert log[0]["start"]["from step"] == 10 and not values(log, "loss")
    assert len(values(log, "valid_loss")) == 1


@pytest.mark.parametrize(
    ("ranks", "options", "sentence"),
    [
        (0, "--checkpoint none --resume", "none holds no run to resume; leave out --resume"),
        (0, "--checkpoint kept", "kept holds a run; go on with it by --resume, or name another"),
        (
            0,
            "--checkpoint kept --resume --lr 1",
            "--lr is 1.0, but the run in kept has 0.003; give",
        ),
        (2, "--checkpoint kept --resume", "was saved by 1 ranks, and here are 2, which would read"),
    ],
)
def test_another_run_is_not_gone_on_with(folder, ranks, options, sentence):
    line = "--train-file text.txt --steps 2"
    if not (folder / "kept").exists():
        assert run(folder, 0, f"{line} --checkpoint kept").returncode == 0
    ended = run(folder, ranks, f"{line} {options}")
    assert ended.returncode != 0
    said = [line for line in ended.stderr.splitlines() if line.startswith("train_lm_trainer")]
    assert len(said) == 1 and sentence in said[0], ended.stderr
