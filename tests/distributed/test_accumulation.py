"""Gradient accumulation under FSDP2: sharded again after each microbatch, as a plan promises."""

import shlex

import pytest
import torch.distributed as dist

from rankbook.predict.memory import ModelShape, Setup, fullest
from rankbook.predict.plan import Machines, Plan, find_card, shape_from_params, step_time
from rankbook.predict.plan.settings import of_book
from tests.distributed.accumulation_ranks import (
    LARGE,
    as_printed,
    bitwise,
    counted_and_foretold,
    learned,
    peak,
    sharded_again,
)
from tests.distributed.launch import run_ranks

UNITS = 3 + 1  # of FSDP2: each layer, and what is in none


@pytest.mark.parametrize(("mesh", "shard"), [("dp=2", "fsdp"), ("dp=4", "2")])
def test_sharded_again_after_each_microbatch(tmp_path, mesh, shard):
    for found in run_ranks(sharded_again, tmp_path, int(mesh[-1]), mesh, shard, 3, "ours"):
        assert found == [(0, 0), (0, UNITS), (0, UNITS)]


@pytest.mark.parametrize("name", ["pipelining", "no_sync"])
def test_a_loop_that_keeps_something_whole_is_found_out(tmp_path, name):
    (found, _) = run_ranks(sharded_again, tmp_path, 2, "dp=2", "fsdp", 3, name)
    parameters, scattered = zip(*found[-2:], strict=True)
    assert scattered == (0, 0)  # gradients wait for the last microbatch
    assert any(parameters) == (name == "pipelining")


def test_the_printed_line_shards_again(tmp_path):
    setup = Setup(dp=2, zero=3, sequences=1, microbatches=4, precision="fsdp-bf16")
    shape = shape_from_params(1e9, 64)
    machines = Machines(find_card("h100"), 2)
    time = step_time(shape, setup, machines)
    plan = Plan(shape, machines, setup, *fullest(shape, setup), time)
    words = shlex.split(of_book(plan).text.replace("\\\n", " "))
    words = [*words[words.index("rankbook.programs.train_lm") + 1 :], "--preset", "tiny"]
    for found in run_ranks(as_printed, tmp_path, 2, words, 2):
        assert len(found) == 4 and not any(whole for whole, _ in found)
        assert all(scattered > 0 for _, scattered in found[1:])


@pytest.mark.parametrize(
    ("mesh", "shard"), [("dp=2", "none"), ("dp=2", "fsdp"), ("dp=4", "2"), ("dp=2,cp=2", "fsdp")]
)
def test_microbatches_learn_what_a_large_batch_learns(tmp_path, mesh, shard):
    ranks = 4 if "4" in mesh or "," in mesh else 2
    for found in run_ranks(learned, tmp_path, ranks, mesh, shard, 3):
        # float32, sums over 24 x 16 tokens in another order
        assert found["loss"] < 1e-6 and found["gradients"] < 8 * 2**-24 * (24 * 16) ** 0.5


@pytest.mark.parametrize("microbatches", [3, 4])
def test_without_shards_the_bits_are_those_of_a_pipeline_of_one_stage(tmp_path, microbatches):
    assert all(run_ranks(bitwise, tmp_path, 2, microbatches))


def counted(cases: list) -> list[tuple]:
    return counted_and_foretold(cases, dist.get_rank())


def test_a_step_sends_what_the_formula_says(tmp_path):
    cases = [("dp=4", "fsdp", 3), ("dp=4", "2", 3), ("dp=4", "none", 3)]
    cases += [("dp=2,tp=2", "fsdp", 2), ("dp=2,tp=2", "none", 2)]
    for rank, found in enumerate(run_ranks(counted, tmp_path, 4, cases)):
        for case, (sent, foretold) in zip(cases, found, strict=True):
            assert sent == foretold and sent, (rank, case)


STATES = {"dp": 4, "zero": 3, "sequences": 2, "precision": "float32", "gloo": True}


@pytest.mark.parametrize("name", ["ours", "pipelining", "no_sync"])
def test_the_memory_that_was_promised(tmp_path, name):
    """A loop that keeps parameters or gradients whole is far above it."""
    options = {**STATES, "microbatches": 4}
    promised, least = promised_and_least(options)
    for found in run_ranks(peak, tmp_path, 4, options, name):
        assert (found < 1.1 * promised) == (name == "ours")
        assert found > 0.95 * least


def promised_and_least(options: dict) -> tuple[float, float]:
    """Bytes at the fullest moment: gradients on their way may have arrived by then, or not."""
    terms = fullest(ModelShape.of(LARGE, 32), Setup(**options))[1]
    return terms.total, terms.total - terms["buffers"].value


@pytest.mark.parametrize("autocast", [False, True])
def test_autocast_needs_more_than_fsdp2s_own_mixed_precision(tmp_path, autocast):
    """train_lm's --bf16 is the former, a plan's ZeRO 3 the latter; the settings say so."""
    options = {**STATES, "microbatches": 4, "precision": "fsdp-bf16"}
    promised, least = promised_and_least(options)
    options |= {"precision": "float32"} if autocast else {}
    for found in run_ranks(peak, tmp_path, 4, options, "ours", autocast):
        assert found > 1.5 * promised if autocast else 0.95 * least < found < 1.1 * promised
