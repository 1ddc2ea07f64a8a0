"""The work of a rank: products by the roofline, attention fused and eager, values and memory."""

from dataclasses import replace

import pytest

from rankbook.comm.ring_model import Link
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.machines import Assumptions, Card, Machines
from rankbook.predict.plan.step import step_time
from rankbook.predict.plan.work import Work

SHAPE = ModelShape(2, 8, 2, 32, 16, sequence=10, gated=True, biases=False)
LINK = Link("none", 0.0, 0.0)
EXACT = Assumptions(matmul=1, attention=1, memory=1, link=1, hidden=0, workspace=0, fragments=0)


def work(flops=1000.0, bandwidth=1e30, shape=SHAPE, **setup):
    card = Card("slow", 1e9, flops, bandwidth, LINK, LINK)
    return Work(shape, Setup(precision="float32", **setup), Machines(card, 8, assumed=EXACT))


def test_a_layer_multiplies_as_much_as_its_shape_says():
    found = work(sequences=3)
    assert found.products + found.attention == pytest.approx(SHAPE.flops_of_layer * 30 / 1000)
    assert found.head == pytest.approx(SHAPE.flops_of_head * 30 / 1000)


def test_tensor_parallelism_divides_arithmetic():
    alone, cut = work(), work(tp=2)
    for part in ("products", "attention", "head", "streams", "loss"):
        assert getattr(cut, part) == pytest.approx(getattr(alone, part) / 2)


def test_norms_are_of_whole_sequences_without_sequence_parallelism():
    cut, whole = (
        work(bandwidth=1.0, tp=2, sequence_parallel=each).streams for each in (True, False)
    )
    assert whole - cut == pytest.approx(4 * 10 * (4 + 6) * 8 / 2)


def test_a_product_takes_as_long_as_the_slower_of_arithmetic_and_memory():
    flops, nbytes = 2 * 10 * 8 * 4, 4 * (10 * 8 + 10 * 4 + 8 * 4)
    assert work().product(8, 4) == flops / 1000
    assert work(flops=1e30, bandwidth=1.0).product(8, 4) == nbytes
    assert work(flops=flops, bandwidth=nbytes * 2.0).product(8, 4) == 1.0


def test_small_parts_of_a_layer_are_bound_by_memory():
    """Cut by eight, arithmetic is an eighth, but every part still reads all of the input."""
    alone, cut = (work(flops=1e30, bandwidth=1.0, tp=tp).products for tp in (1, 8))
    assert cut > 1.5 * alone / 8


def test_eager_attention_computes_all_scores_and_sends_them_through_memory():
    fused, eager = work(bandwidth=1.0), work(bandwidth=1.0, eager_attention=True)
    assert eager.attention == 2 * fused.attention
    assert fused.scores == 0
    scores = 2 * 10 * 10  # heads, tokens, tokens
    assert eager.scores == 4 * scores * 4  # written, read, written, read, of 4 bytes
    dropped = work(bandwidth=1.0, eager_attention=True, shape=replace(SHAPE, dropout=True))
    assert dropped.scores == 4 * scores * 6.5


@pytest.mark.parametrize(("checkpointing", "passes"), [("none", 3), ("selective", 4)])
def test_scores_are_made_anew_with_attention(checkpointing, passes):
    card = Card("slow", 1e9, 1e30, 1.0, LINK, LINK)
    fused, eager = (
        step_time(
            SHAPE,
            Setup(precision="float32", checkpointing=checkpointing, eager_attention=each),
            Machines(card, 1, assumed=EXACT),
        )["elementwise"]
        for each in (False, True)
    )
    one = work(bandwidth=1.0, eager_attention=True).scores
    assert eager.value - fused.value == pytest.approx(passes * 2 * one)
    assert "eager" in eager.formula
