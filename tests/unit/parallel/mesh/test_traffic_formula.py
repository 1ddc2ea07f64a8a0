"""Bytes by formula: what textbooks say of each dimension. Beside real ranks: tests/distributed."""

import pytest

from rankbook.models import TransformerConfig, TransformerLM
from rankbook.parallel.context import attention_bytes as sent_in_a_ring
from rankbook.parallel.mesh import Layout
from rankbook.parallel.mesh.traffic_formula import predicted_traffic

CONFIG = TransformerConfig(64, d_model=32, d_hidden=64, heads=4, layers=4, max_length=16)
ROWS, WINDOW = 16, 16
MODEL = 4 * sum(p.numel() for p in TransformerLM(CONFIG).parameters())  # bytes
STREAM = 4 * ROWS * WINDOW * 32  # bytes of the batch's activation


def sent(words: str, shard: str = "none", **options):
    return predicted_traffic(CONFIG, Layout.parse(words, shard), ROWS, WINDOW, **options)


def test_one_process_sends_nothing():
    assert not sent("dp=1")


def test_replicas_send_twice_the_model_but_for_their_own_share():
    found = sent("dp=4")
    assert found.total("dp").bytes == MODEL + 2 * 4  # and the loss, and the norm
    assert found.total("dp").ring == 2 * 3 / 4 * (MODEL + 8)


def test_sharded_states_send_half_as_much_again():
    """Gathered forward, gathered backward, scattered: 3 instead of 2, but for the root."""
    layers = MODEL - 4 * (2 * 64 * 32 + 2 * 32 + 64)
    found = sent("dp=4", "fsdp")
    assert found.total("dp", "all_gather").ring == 3 / 4 * (MODEL + layers)
    assert found["dp", "reduce_scatter"].ring == 3 / 4 * MODEL


def test_a_layer_gathers_and_scatters_the_stream_four_times():
    """Whatever the width of the perceptron, and however many ranks there are."""
    found = sent("tp=4")
    ends = 2 * 2  # of the embedding and the head, forward and backward
    passes = 8 * CONFIG.layers + ends
    moved = found.total("tp", "all_gather").ring + found.total("tp", "reduce_scatter").ring
    assert moved == passes * 3 / 4 * STREAM


def test_stages_send_the_stream_down_and_its_gradient_up():
    for rank in range(4):
        assert sent("pp=4", rank=rank)["pp", "send"].bytes == STREAM * ((rank > 0) + (rank < 3))
    # a rank with two stages hands it on twice
    many = sent("pp=2", schedule="interleaved1f1b", microbatches=4)
    assert many["pp", "send"].bytes == (2 + 1) * STREAM
    # microbatches make the messages smaller, and as many more
    few, more = (sent("pp=2", microbatches=m)["pp", "send"] for m in (2, 8))
    assert few.bytes == more.bytes and 4 * few.calls == more.calls


def test_dimensions_share_the_work():
    """Cut by tp, a rank averages half of the gradients; cut by dp, it gathers half of the rows."""
    both = sent("dp=2,tp=2")
    norms = 4 * 32 * (2 * CONFIG.layers * 2 + 2)
    whole = norms + 4 * 32 * 2 * CONFIG.layers  # those, and the biases added after the sum
    assert both.total("dp").bytes == (MODEL - whole) / 2 + whole + 4
    assert both["tp", "all_gather"].bytes == sent("tp=2")["tp", "all_gather"].bytes / 2
    assert both["other", "all_reduce"].bytes == 4  # the norm, of all ranks


def test_keys_and_values_go_round_in_every_layer():
    found = sent("cp=4")
    of_a_layer = sent_in_a_ring("ring", 4, WINDOW, 32, batch=ROWS)
    assert found["cp", "send"].bytes == CONFIG.layers * of_a_layer
    # every gradient is averaged; and one number each of the loss, of its tokens, of the norm
    assert found["cp", "all_reduce"].bytes == MODEL + 3 * 4
    # in microbatches more messages, and as many bytes
    parts = sent("cp=4", microbatches=4)["cp", "send"]
    assert (parts.bytes, parts.calls) == (found["cp", "send"].bytes, 4 * found["cp", "send"].calls)


@pytest.mark.parametrize(
    ("words", "options", "sentence"),
    [
        ("pp=8", {}, "8 stages cannot share 4 layers"),
        ("tp=3", {}, "tp=3 does not divide the model's heads, 4"),
        ("dp=3", {}, "a batch of 16 is not divisible by 3 replicas"),
        ("pp=2", {"microbatches": 32}, "a batch of 16 is not divisible"),
        ("cp=3", {}, "sequences of 16 tokens are not cut into 2 x cp=3 equal parts"),
        ("ep=2", {}, "this formula knows no experts: how many tokens go to which"),
    ],
)
def test_what_cannot_run_is_one_sentence(words, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        sent(words, **options)
