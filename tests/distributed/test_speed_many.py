"""One model on two ranks: every strategy against one process, and what each keeps and sends."""

import difflib
import inspect

import pytest
import torch

from rankbook.speed.strategies import STRATEGIES
from rankbook.speed.strategies.loops import on_fabric, plain
from rankbook.speed.strategies.memory import Bytes, formula
from tests.distributed.launch import run_ranks
from tests.distributed.speed_many_ranks import (
    STEPS,
    ddp_settings,
    lightning,
    refused,
    strategies,
)

pytestmark = pytest.mark.long

EXACT = [name for name in STRATEGIES if name not in ("alone", "ddp-bf16")]
TOLERANCE = 1e-5
SETUP = "model, optimizer = fabric.setup(model, optimizer)"


def everything() -> dict:
    """All that the ranks do, in one launch: packages are imported once."""
    return {
        "strategies": strategies(),
        "settings": ddp_settings(),
        "lightning": lightning(),
        "refused": refused(),
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 2)


@pytest.fixture(scope="module")
def alone(ranks):
    return ranks[0]["strategies"]["alone"]


def test_the_control_learns(alone):
    losses = alone["losses"]
    assert len(losses) == STEPS and max(losses) - min(losses) > 0.02


@pytest.mark.parametrize("strategy", EXACT)
def test_every_strategy_is_one_process_at_the_same_global_batch(strategy, ranks, alone):
    for rank in ranks:
        assert rank["strategies"][strategy]["losses"] == pytest.approx(
            alone["losses"], abs=TOLERANCE
        )


def test_rounded_gradients_are_near(ranks, alone):
    """bfloat16 keeps 8 digits of 2: a relative error of 2^-9 of a gradient at most."""
    for rank in ranks:
        losses = rank["strategies"]["ddp-bf16"]["losses"]
        assert losses == pytest.approx(alone["losses"], abs=2e-2)
        assert losses[0] == pytest.approx(alone["losses"][0], abs=TOLERANCE)  # before any update
        assert losses != pytest.approx(alone["losses"], abs=1e-7)


@pytest.mark.parametrize("strategy", [name for name in EXACT if "deepspeed" not in name])
def test_accumulation_is_the_whole_batch(strategy, ranks, alone):
    """The same samples whole, then again in three unequal parts, then one more step."""
    for rank in ranks:
        found = rank["strategies"][strategy]
        for moment in ("whole", "parts", "after"):
            assert found[moment] == pytest.approx(alone[moment], abs=TOLERANCE), moment


def test_parts_are_sent_with_the_last(ranks):
    for rank in ranks:
        for name, width in (("ddp", 4), ("ddp-bf16", 2), ("zero1", 4)):
            found = rank["strategies"][name]
            assert found["whole sent"] == found["parts sent"]
            all_reduces, sent = found["whole sent"]
            assert all_reduces >= 1 and sent == width * found["parameters"]
        small = rank["settings"]["small buckets"]
        assert small["whole sent"][0] > 3 * rank["strategies"]["ddp"]["whole sent"][0]
        assert small["whole sent"][1] == 4 * small["parameters"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_is_as_the_formula_says(strategy, ranks):
    """Within what is rounded up: sizes that two ranks do not divide, shards of whole parameters."""
    for rank in ranks:
        found = rank["strategies"][strategy]
        expected = formula(strategy, found["parameters"], 2)
        for part in ("parameters", "state"):
            assert found["bytes"][part] == pytest.approx(getattr(expected, part), rel=0.02), part
        # a parameter on the border of two shards leaves its whole gradient on both
        border = 4 * found["largest"] if strategy in ("deepspeed1", "deepspeed2") else 0
        gradients = found["bytes"]["gradients"]
        assert 0.98 * expected.gradients < gradients < 1.02 * expected.gradients + border


def test_buffers(ranks):
    for rank in ranks:
        for strategy, found in rank["strategies"].items():
            buffers = 4 * found["parameters"] if strategy == "deepspeed3" else 0
            assert found["bytes"]["buffers"] == buffers, strategy
        twice = rank["settings"]["no view"]
        assert twice["bytes"]["buffers"] == 4 * twice["parameters"]


def test_a_large_parameter_is_not_cut_by_all(ranks):
    """The word embedding is most of this model, and all of its state lies on one rank."""
    wide = [rank["settings"]["wide"] for rank in ranks]
    most, least = sorted((Bytes(**found["bytes"]).state for found in wide), reverse=True)
    embedding = 8 * 3000 * 32
    assert most >= embedding > 0.7 * (most + least)
    assert most + least == 8 * wide[0]["parameters"]
    for rank in ranks:
        even = rank["settings"]["wide fsdp2"]
        assert even["bytes"]["state"] == pytest.approx(4 * even["parameters"], rel=0.02)
        border = rank["settings"]["wide deepspeed2"]
        assert border["bytes"]["gradients"] >= 4 * 3000 * 32  # more than the half of formula
        assert border["bytes"]["state"] == pytest.approx(6 * border["parameters"], rel=0.02)


def test_lightning_is_the_plain_loop(ranks, alone):
    for rank in ranks:
        found = rank["lightning"]
        for name in ("plain", "fabric", "single", "ddp", "fsdp2"):
            assert found[name] == pytest.approx(alone["losses"], abs=TOLERANCE), name
        assert found["noisy"][:STEPS] == pytest.approx(alone["losses"], abs=TOLERANCE)
        thirds = torch.tensor(found["thirds"]).view(STEPS, 3).mean(dim=1).tolist()
        assert thirds == pytest.approx(alone["losses"], abs=TOLERANCE)
        assert found["group is there"] and not found["still deterministic"]


def test_what_the_trainer_writes(ranks):
    found = ranks[0]["lightning"]
    assert found["files"] == {}
    weights = 4 * ranks[0]["strategies"]["alone"]["parameters"]
    checkpoint = [size for name, size in found["noisy files"].items() if name.endswith(".ckpt")]
    assert len(checkpoint) == 1 and checkpoint[0] > 3 * weights  # and Adam's two moments
    assert any(name.endswith("metrics.csv") for name in found["noisy files"])


def test_fabric_changes_six_lines_of_the_plain_loop():
    """What a page shows as a difference."""
    sources = (inspect.getsource(loop).split("losses.append")[0] for loop in (plain, on_fabric))
    before, after = ([line.strip() for line in text.splitlines()] for text in sources)
    before, after = before[before.index("model.to(device)") :], after[after.index(SETUP) :]
    lines = list(difflib.ndiff(before, after))
    assert [line[2:] for line in lines if line[0] == "-"] == [
        "model.to(device)",
        "batch = batch.to(device)",
        "loss.backward()",
    ]
    assert [line[2:] for line in lines if line[0] == "+"] == [
        SETUP,
        "batches = fabric.setup_dataloaders(batches, use_distributed_sampler=False)",
        "fabric.backward(loss)",
    ]


def test_what_lightning_refuses_on_a_cpu(ranks):
    for rank in ranks:
        told = {(tool, asked): sentence for tool, asked, sentence in rank["refused"]["lightning"]}
        for tool in ("Trainer", "Fabric"):
            assert told[tool, "strategy='ddp'"] == ""
            assert "GPU" in told[tool, "strategy='fsdp'"]
            assert "only supported on CUDA GPUs" in told[tool, "strategy='deepspeed_stage_2'"]
            assert "invalid strategy name" in told[tool, "strategy='ddp_sharded'"]
            assert "'fp16' is invalid" in told[tool, "precision='fp16'"]


def test_wrong_use_is_one_sentence_on_every_rank(ranks):
    assert ranks[0]["refused"] == ranks[1]["refused"]
    told = ranks[0]["refused"]
    assert told["parts"].startswith("deepspeed1 takes one batch a step, not 2")
    assert told["rows"].startswith("a batch of 5 texts cannot be shared by 2 ranks equally")
    assert told["16-mixed"].startswith("on a CPU Lightning trains in bf16-mixed instead")
    assert told["trainer"] == "strategy 'zero1' of the Trainer is unknown here; use ddp or fsdp2"
