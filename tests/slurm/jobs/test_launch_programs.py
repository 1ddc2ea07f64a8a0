"""The launch files with a fixed number of nodes run every program of the book over two nodes."""

import ast
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from benchmarks.ladder import run as ladder
from rankbook.data.embedded import prose
from rankbook.programs import elastic, pipe_ddp, train_lm, train_lm_trainer
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size
from rankbook.speed.token_file import save_tokens
from rankbook.training.elastic import losses, read_events
from tests.waiting import SOON

pytestmark = pytest.mark.long

ENVIRONMENT = "RANKBOOK_DATA= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1"
# Another order of sums over 8 x 60 tokens, in 64 bits: 2^-53 x 8 x 22 = 2e-14 a step. AdamW may
# magnify it, a thousandfold and more; what is wrong is wrong by 1e-5 and more.
TOLERANCE = 1e-9
ELASTIC = "--samples 18 --global-batch 5 --steps 8 --backend gloo"


@pytest.fixture(scope="module")
def folder(cluster):
    """The shared folder, with a text and with made-up reviews."""
    lines = [line for line in prose()["valid"].split("\n") if line.strip()][:40]
    (cluster.folder / "text.txt").write_text("\n".join(lines), "utf-8")
    cpu = size("cpu")
    splits = {name: synthetic(count, cpu) for name, count in cpu.splits.items()}
    save_tokens(splits, cpu, cluster.folder / "tokens.npz")
    return cluster.folder


@pytest.fixture
def fixed(cluster, folder):
    """Runs a program under fixed.sbatch; gives what it said, a line of a node begins ``0: ``."""

    where = f"export PYTHONPATH=$PWD:$PYTHONPATH; {ENVIRONMENT}"

    def run(program: str, options: str = "", bits: int = 32) -> str:
        program = program if "." in program else f"rankbook.programs.{program}"
        if bits == 64:
            program = f"tests.distributed.in_64_bits {program}"
        line = f"sbatch --parsable --nodes=2 launch/slurm/fixed.sbatch {program}"
        job = int(cluster.login(f"{where} {line} {options}"))
        cluster.wait(job, "COMPLETED", SOON)
        return cluster.log(job)

    yield run
    assert "torch" not in cluster.login("ps -eo args"), "a job left processes"


@pytest.fixture
def in_64_bits():
    """This process computes so, until the test ends."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def alone(monkeypatch):
    """Runs a program's ``main`` in this process, with the same data as on the cluster."""
    for word in ENVIRONMENT.split():
        monkeypatch.setenv(*word.split("="))
    return lambda program, options: program.main(options.split())


def records(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def logged(path) -> list[float]:
    return [record["loss"] for record in records(path) if "loss" in record]


def test_ranks_live_says_who_is_who(fixed):
    said = fixed("ranks_live")
    found = dict(re.findall(r"^(\d): .*'names': (\{.*?\})", said, re.MULTILINE))
    names = [ast.literal_eval(found[node]) for node in sorted(found)]
    assert sorted(name["RANK"] for name in names) == [0, 1]
    for name in names:
        assert (name["LOCAL_RANK"], name["LOCAL_WORLD_SIZE"], name["WORLD_SIZE"]) == (0, 1, 2)
        assert name["GROUP_RANK"] == name["RANK"]
    assert said.count("'total': tensor([ 0.,  1.,  2.,  3.,") == 2


def test_pipelines_is_what_one_process_computes(fixed):
    said = fixed("pipelines", "--schedule zbv")
    off = [float(each) for each in re.findall(r"'off': ([\d.e-]+)", said)]
    stages = sorted(re.findall(r"'stages': \[([\d, ]+)\]", said))
    assert len(off) == 2 and max(off) < 1e-5 and stages == ["0, 3", "1, 2"]


@pytest.mark.usefixtures("in_64_bits")
def test_pipe_ddp_trains_as_one_process(fixed, alone, folder, monkeypatch):
    options = "--batch 8 --window 60 --log-every 1 --steps 3 --evaluate-on 1 --log-file "
    said = fixed("pipe_ddp", f"{options}{folder}/pipe2.jsonl", bits=64)
    group = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**group, "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    alone(pipe_ddp, f"{options}{folder}/pipe1.jsonl")
    assert records(folder / "pipe2.jsonl")[0]["start"]["plan"]["ranks"] == 2
    assert said.count("test loss of the last model") == 1  # rank 0 only
    assert len(logged(folder / "pipe1.jsonl")) == 3
    two, one = (logged(folder / f"pipe{ranks}.jsonl") for ranks in (2, 1))
    assert two == pytest.approx(one, abs=TOLERANCE)


@pytest.mark.usefixtures("in_64_bits")
def test_train_lm_trains_as_one_process_and_goes_on_as_one(fixed, alone, folder, monkeypatch):
    options = f"--batch 8 --window 60 --log-file {folder}/mesh.jsonl --mesh"
    said = fixed("train_lm", f"{options} tp=2 --steps 3", bits=64)
    group = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**group, "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    alone(train_lm, f"{options} dp=1 --steps 4 --resume")
    two = logged(folder / "mesh.jsonl")
    alone(train_lm, f"{options} dp=1 --steps 4".replace("mesh.", "one."))
    assert said.count("step 3: loss") == 1 and len(two) == 4  # rank 0 only
    assert two == pytest.approx(logged(folder / "one.jsonl"), abs=TOLERANCE)


def test_train_lm_meets_now_and_then_and_goes_on_between_two_meetings(fixed, folder):
    """Five steps: three alone, a meeting, two alone; then the sixth, after which they meet."""
    options = f"--batch 8 --window 60 --sync diloco:3 --log-file {folder}/sync"
    said = fixed("train_lm", f"{options}.jsonl --steps 5")
    assert (
        said.count("mesh dp=2, replicas meet after 3 steps alone (DiLoCo), from step 0 to 5") == 1
    )
    fixed("train_lm", f"{options}.jsonl --steps 7 --resume")
    fixed("train_lm", f"{options}_one.jsonl --steps 7")
    found = logged(folder / "sync.jsonl")
    assert found == logged(folder / "sync_one.jsonl") and len(found) == 7
    sent = [record["sent"] for record in records(folder / "sync.jsonl") if "sent" in record]
    assert sent == [0, 0, sent[2], sent[2], sent[2], 2 * sent[2], 2 * sent[2]] and sent[2] > 0


def test_train_lm_trainer_trains_as_one_process(fixed, alone, folder):
    options = f"--train-file {folder}/text.txt --read first --steps 3 --log-every 1 --log-file "
    fixed("train_lm_trainer", f"{options}{folder}/lm2.jsonl")
    alone(train_lm_trainer, f"{options}{folder}/lm1.jsonl")
    start = records(folder / "lm2.jsonl")[0]["start"]
    assert (start["world size"], start["nodes"]) == (2, 2)
    assert len(logged(folder / "lm1.jsonl")) == 3
    assert logged(folder / "lm2.jsonl") == pytest.approx(logged(folder / "lm1.jsonl"), abs=1e-4)


def test_uneven_takes_every_input_once(fixed):
    said = fixed("uneven", "--inputs 2 4 --epochs 1")
    assert "0: rank 1: 4 inputs, trained on 4 in an epoch" in said
    assert "inputs taken once 6, more often 0, never 0" in said


def test_the_ladder_trains_as_one_process(fixed, alone, folder):
    options = f"--recipe sdpa --steps 3 --batch 4 --repeats 1 --tokens {folder}/tokens.npz"
    fixed("benchmarks.ladder", f"{options} --out {folder}/speed.json")
    (reference,) = alone(ladder, options)
    (row,) = json.loads((folder / "speed.json").read_text())["many"]
    assert (row["ranks"], row["strategy"], len(row["losses"])) == (2, "ddp", 3)
    assert row["losses"] == pytest.approx(reference["losses"], abs=1e-4)


def test_torchrun_by_hand_on_both_hosts_trains_as_one_process(cluster, alone, folder):
    def run(host: str) -> str:
        words = f"n1 2 rankbook.programs.elastic {ELASTIC}"
        kept = f"--checkpoint {folder}/hand --events {folder}/hand.jsonl"
        return cluster.on(host, f"{ENVIRONMENT} launch/torchrun.sh {words} {kept}", SOON)

    with ThreadPoolExecutor() as hosts:
        said = "".join(hosts.map(run, cluster.nodes))
    assert said.count("elastic: 2 ranks, from the beginning") == 1 and "done: step 8" in said
    events = folder / "alone.jsonl"
    alone(elastic, f"{ELASTIC} --checkpoint {folder}/alone --events {events}")
    ours, theirs = losses(read_events(folder / "hand.jsonl")), losses(read_events(events))
    assert sorted(theirs) == [*range(1, 9)]
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert "torch" not in cluster.login("ps -eo args")
