"""The formula by hand: ZeRO's table, activations as published, what cannot be."""

import subprocess
import sys
from dataclasses import replace

import pytest
from bookext.moving_data.memory import MODELS, activations

from rankbook.predict.memory.activations import layer_of
from rankbook.predict.memory.formula import PARTS, fullest, memory_of
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.moments import in_flight
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.states import model_states, share

GPT = ModelShape(48, 6144, 64, 24576, 51200, 2048, dropout=True)
LLAMA = ModelShape(32, 4096, 32, 14336, 128256, 8192, kv_heads=8, gated=True, biases=False)
SMALL = ModelShape(4, 64, 4, 256, 1000, 128, relu=True, head_bias=True)


def test_the_states_of_zero_are_the_papers():
    """Figure 1 of https://arxiv.org/abs/1910.02054: 7.5 billion parameters on 64 GPUs."""
    gigabytes = [round(model_states(7.5e9, zero, 64) / 1e9, 1) for zero in range(4)]
    assert gigabytes == [120.0, 31.4, 16.6, 1.9]


def test_states_that_cannot_be():
    with pytest.raises(ValueError, match="stages 0 to 3, not 4"):
        model_states(1, 4, 1)
    with pytest.raises(ValueError, match="0 ranks hold nothing"):
        model_states(1, 1, 0)
    with pytest.raises(ValueError, match="precision 'fp8' is unknown; use one of float32, bf16"):
        model_states(1, 1, 1, "fp8")


@pytest.mark.parametrize("tp", [1, 8])
def test_activations_are_korthikantis(tp):
    """s b h (34 + 5 a s / h) bytes a layer, all of it cut by t: table 2 of 2205.05198."""
    how = Setup(tp=tp, eager_attention=True, regather=True)
    published = GPT.hidden * (34 + 5 * GPT.heads * GPT.sequence / GPT.hidden) / tp
    assert layer_of(GPT, how).layer == pytest.approx(published, rel=1e-3)  # and norms' statistics
    without = layer_of(GPT, replace(how, sequence_parallel=False, regather=False)).layer
    table = GPT.hidden * (10 + 24 / tp + 5 * GPT.heads * GPT.sequence / GPT.hidden / tp)
    assert without == pytest.approx(table, rel=1e-3)


def test_a_share_of_parameters_adds_up():
    for shape in (GPT, LLAMA, SMALL, replace(LLAMA, tied=True)):
        assert share(shape, Setup()).all == shape.parameters
        stages = [share(shape, Setup(pp=3, tp=2), stage) for stage in range(3)]
        copies = shape.vocabulary * shape.hidden / 2 if shape.tied else 0
        assert sum(s.layers for s in stages) == shape.layers
        whole = sum(each.all for each in stages)
        assert whole - copies == pytest.approx(shape.parameters / 2, rel=1e-2)  # norms are on both


def test_no_more_is_held_where_more_is_cut():
    plain = Setup(dp=8, microbatches=2)
    totals = [fullest(LLAMA, replace(plain, zero=zero))[1].total for zero in range(4)]
    assert totals == sorted(totals, reverse=True)
    for cut in ({"tp": 2}, {"pp": 2}, {"checkpointing": "layers"}, {"offload": ("optimizer",)}):
        assert fullest(LLAMA, replace(plain, **cut))[1].total < totals[0]


def test_every_part_says_its_formula():
    terms = memory_of(LLAMA, Setup(pp=2, dp=2, tp=2, zero=3, microbatches=4), stage=1)
    assert tuple(terms) == PARTS and terms.moment in ("loss", "backward")
    assert terms["optimizer"].formula == "12 P/n"
    assert all(term.formula for term in terms.values())
    assert memory_of(LLAMA, Setup(pp=2), 0, "loss").total == 0  # it is on the last stage


def test_microbatches_under_way():
    how = Setup(pp=4, microbatches=16)
    assert [in_flight(how, stage) for stage in range(4)] == [4, 3, 2, 1]
    assert in_flight(replace(how, schedule="gpipe"), 0) == 16
    assert in_flight(replace(how, microbatches=2), 0) == 2
    # 1 + (p - 1) / (p v) times as many: https://arxiv.org/abs/2205.05198, section 4.2.3
    assert in_flight(replace(how, chunks=2), 0) == 4 * (1 + 3 / (4 * 2))


@pytest.mark.parametrize(
    ("shape", "how", "stage", "moment", "said"),
    [
        (SMALL, Setup(), 1, "peak", "there is no stage 1 of 1"),
        (SMALL, Setup(pp=8), 0, "peak", "8 stages cannot share 4 layers"),
        (SMALL, Setup(precision="fsdp-bf16"), 0, "peak", "FSDP2's own; use zero=3"),
        (SMALL, Setup(), 0, "forward", "step_moment 'forward' is unknown; use one of loss"),
    ],
)
def test_what_cannot_be(shape, how, stage, moment, said):
    with pytest.raises(ValueError, match=said):
        memory_of(shape, how, stage, moment)


def test_the_formula_does_without_torch():
    code = (
        "import sys; from rankbook.predict.memory import memory_of; print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("checkpointing", ["attention", "layers"])
def test_a_layer_leaves_what_page_38s_figure_says(name, checkpointing):
    """The figure does without the numbers in 32 bits, which are few."""
    shape = MODELS[name]
    ways = {"attention": "none", "layers": "layers"}
    mine = layer_of(shape, Setup(checkpointing=ways[checkpointing])).layer
    fewer = replace(shape, layers=shape.layers - 1)
    setup = Setup(checkpointing=checkpointing)
    kept = [activations(each, setup) for each in (shape, fewer)]
    exact = 4 * (4 + shape.heads) if checkpointing == "attention" else 0
    assert (kept[0] - kept[1]) / shape.sequence == mine - exact
