"""`prove` on ranks: right steps in every layout are right, and each sabotage is named.

The steps are in prove_ranks.py and prove_wrong_ranks.py; all of a number of ranks share a launch.
"""

import subprocess
import sys

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.prove_ranks import all_of, untouched

RIGHT = "tests.distributed.prove_ranks"
WRONG = "tests.distributed.prove_wrong_ranks"


def launched(folder, ranks: int, module: str, begin: str) -> dict[str, dict]:
    """What each case of a module gave: on all ranks the same."""
    first, *others = run_ranks(all_of, folder, ranks, module, begin)
    for name in first:
        assert all(other[name] == first[name] for other in others), name
    return first


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    folder = tmp_path_factory.mktemp
    return launched(folder("two"), 2, RIGHT, "of_") | launched(folder("four"), 4, RIGHT, "four_of_")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    folder = tmp_path_factory.mktemp
    return launched(folder("two"), 2, WRONG, "of_") | launched(folder("four"), 4, WRONG, "four_of_")


GRADIENTS = {
    "plain_replicas": 15,
    "ddp": 15,
    "fsdp": 15,
    "tensor_parallel": 15,
    "sequence_parallel": 15,
    "hand_cut": 15,
    "a_function_that_cuts": 15,
    "stages": 15,
    "zero": 15,
    "fsdp_and_tensor_parallel": 15,
    "hybrid_sharding": 15,
    "replicas_of_tensor_parallel": 15,
    "a_hand_cut_on_one_dimension": 15,
    "three_dimensions": 37,
    "sharded_tensors": 37,
}


def test_no_case_is_left_out(right):
    assert right.keys() == GRADIENTS.keys() | {"a_whole_step", "a_sharded_pipeline"}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_right_step_is_right(right, name):
    said = right[name]
    assert said["right"], said
    count = GRADIENTS[name]
    assert said["text"].startswith(f"right: loss, {count} gradients, ")
    assert f" {count} parameters after " in said["text"] and "\n" not in said["text"]
    assert said["compared"]["gradient"] == said["compared"]["after"] == count
    assert said["largest"] < said["tolerance"] < 1e-4


@pytest.mark.parametrize("name", ["a_whole_step", "a_sharded_pipeline"])
def test_a_step_that_does_all_of_it_is_looked_at_as_the_optimizer_begins(right, name):
    said = right[name]
    assert said["right"] and said["text"].startswith("right: loss, norm, "), said
    assert said["compared"]["clipped"] == said["compared"]["after"] > 0
    assert not said["compared"]["gradient"]


# the kind and the name of the first difference, what is said of it, how many of its kind there are
SABOTAGE = {
    "other_values": ("before", "embedding.weight", "value before the step off by", 11),
    "a_lost_layer": ("before", "blocks.1.norm.weight", "is on no rank", 6),
    "half_a_tensor": ("before", "blocks.0.up.weight", "only 50 % of it is on the ranks", 6),
    "nothing_exchanged": ("gradient", "head.bias", "whose mean is the twin's", 15),
    "replicas_that_are_not_averaged": ("gradient", "head.bias", "ranks 0 and 2 hold different", 15),
    "a_sum": ("gradient", "head.bias", "gradient is 2.00 times the twin's", 15),
    "a_loss_that_is_divided": ("loss", "", ": 0.500 times", 1),
    "uneven_shares": ("loss", "", ": 0.899 times", 1),
    "a_missing_gradient": ("gradient", "blocks.0.up.weight", "no gradient on rank 1 only", 1),
    "a_replica_that_differs": ("gradient", "blocks.0.up.weight", "% on rank 1 only", 1),
    "a_lost_backward_sum": ("gradient", "blocks.1.norm.weight", "whose sum is the twin's", 9),
    "an_uncut_stream": ("gradient", "blocks.1.down.bias", "is 2.00 times the twin's", 12),
    "tied_stages": ("gradient", "embedding.weight", "whose sum is the twin's", 1),
    "clipping_by_parts": ("norm", "", "each rank's own, whose squares add up to the twin's", 1),
    "a_clip_that_forgets_a_part": ("clipped", "embedding.weight", " times the twin's", 1),
    "another_rate": ("after", "embedding.weight", "is 2.00 times the twin's on rank 1 only", 15),
    "an_early_optimizer": ("after", "embedding.weight", "did not change in the step", 15),
    "batch_norm": ("loss", "", ": off by 1.5 %", 1),
    "dropout": ("loss", "", ": off by", 1),
    "not_a_number": ("gradient", "head.bias", "gradient is not finite", 1),
    "a_second_step": ("gradient", "head.bias", "gradient is 3.00 times the twin's", 1),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_sabotage_is_named(wrong, name):
    said = wrong[name]
    kind, parameter, words, count = SABOTAGE[name]
    assert not said.get("right", True), said
    assert (said["kind"], said["name"]) == (kind, parameter), said["text"]
    assert words in said["says"] and said["text"].startswith("WRONG: ")
    assert len(said["kinds"][kind]) == count
    assert said["error"] > 10 * said["tolerance"]


ONE_CAUSE = [
    "nothing_exchanged",
    "a_sum",
    "a_missing_gradient",
    "a_lost_backward_sum",
    "tied_stages",
    "another_rate",
    "an_early_optimizer",
    "a_clip_that_forgets_a_part",
    "a_loss_that_is_divided",
]


@pytest.mark.parametrize("name", ONE_CAUSE)
def test_what_follows_from_the_cause_is_not_reported(wrong, name):
    """The twin's gradients take the place of the wrong ones, so the rest of the step is right."""
    assert wrong[name]["kinds"].keys() == {wrong[name]["kind"]}


def test_the_notes_say_what_may_explain_it(wrong):
    notes = {
        "an_early_optimizer": "holds 15 tensors that are not parameters of the model",
        "dropout": "note: dropout is on",
        "no_rate": "the learning rate is 0",
        "other_values": "load the same values into the model and its twin",
    }
    for name, words in notes.items():
        assert words in wrong[name]["text"].splitlines()[-1]
    assert "note" not in wrong["a_lost_layer"]["text"] and wrong["no_rate"]["right"]


def test_later_steps_are_named(wrong):
    assert wrong["a_second_step"]["text"] == (
        "WRONG: step 2: head.bias: gradient is 3.00 times the twin's"
    )


def test_buffers_are_compared(wrong):
    assert wrong["batch_norm"]["kinds"]["buffer"] == ["batch.running_mean", "batch.running_var"]


RAISED = {
    "other_batches": "ValueError: rank 1 has another batch than rank 0: give every rank the whole",
    "other_twins": "ValueError: rank 1 has another twin than rank 0: make it from the same seed",
    "an_unsaid_cut": "ValueError: blocks.0.up.weight is [8, 8] on a rank and [16, 8] in the twin",
    "a_pattern_for_nothing": "ValueError: layout: '*.upp' fits no parameter of the twin",
    "unknown_names": "ValueError: parameter first.weight is not in the twin, whose names begin",
    "one_that_raises": "RuntimeError: step raised on rank 1: ValueError: no more rows",
    "a_clip_that_raises": "RuntimeError: clip raised on all ranks: TypeError: mixed",
    "a_twin_that_steps_the_part": "RuntimeError: the twin's step raised on all ranks: ValueError:",
}


@pytest.mark.parametrize("name", RAISED)
def test_what_cannot_be_compared_raises_one_sentence_on_all_ranks(wrong, name):
    assert wrong[name]["raised"].startswith(RAISED[name])
    assert "\n" not in wrong[name]["raised"]


def test_no_wrong_case_is_left_out(wrong):
    assert wrong.keys() == SABOTAGE.keys() | RAISED.keys() | {"no_rate"}


def test_a_proof_leaves_no_trace(tmp_path):
    for changed in run_ranks(untouched, tmp_path, 2):
        assert changed == []


def test_a_rank_that_raises_while_others_wait_is_named_on_all(tmp_path):
    """The others are freed when its process ends, and say whose error it was."""
    program = tmp_path / "train.py"
    program.write_text(WAITING)
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *words, str(program)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode
    for rank in (0, 1):
        assert f"[{rank}] step raised on rank 1: ValueError: no more rows\n" in done.stdout


def test_a_script_that_proves_ends_without_threads_of_its_group(tmp_path):
    """With one of gloo's left, a rank could abort at its end, when all has been said."""
    program = tmp_path / "train.py"
    program.write_text(PROVING)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *words, str(program)], capture_output=True, text=True, timeout=900
    )
    assert not done.returncode, done.stderr
    said = [f"[{rank}] right: True, ends alone" for rank in (0, 1)]
    assert sorted(done.stdout.splitlines()) == said


WAITING = """
import sys

import torch
import torch.distributed as dist

from rankbook.prove import prove

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model, twin = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
twin.load_state_dict(model.state_dict())


def step(model, batch):
    if rank == 1:
        raise ValueError("no more rows")
    dist.all_reduce(torch.ones(1))


def alone(model, batch):
    model(batch).sum().backward()


try:
    prove(step, model, None, torch.ones(2, 2), twin=twin, twin_step=alone)
except RuntimeError as error:
    sys.stdout.write(f"[{rank}] {error}\\n")
    sys.stdout.flush()
    raise
"""

PROVING = """
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.prove import prove

dist.init_process_group("gloo")
torch.manual_seed(0)
model, twin = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
twin.load_state_dict(model.state_dict())


def step(model, batch):
    model(batch).sum().backward()


optimizer = torch.optim.AdamW(model.parameters())
report = prove(step, model, optimizer, torch.ones(2, 2), twin=twin)
rank = dist.get_rank()
dist.destroy_process_group()
tasks = Path("/proc/self/task")
names = [(task / "comm").read_text() for task in tasks.iterdir()] if tasks.exists() else []
left = sorted(name.strip() for name in names if "gloo" in name)
sys.stdout.write(f"[{rank}] right: {bool(report)}, ends with {left}\\n".replace("with []", "alone"))
"""
