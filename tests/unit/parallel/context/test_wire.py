"""Bytes of a layer's attention, by formula. Beside real ranks: tests/distributed."""

import pytest

from rankbook.parallel.context import attention_bytes

SIZES = {"length": 64, "d_model": 32, "batch": 2}
WHOLE = 2 * 64 * 32 * 4  # bytes of the keys of whole sequences


def test_a_ring_sends_nearly_all_keys_and_values_however_many_ranks_there_are():
    for ranks in (2, 4, 8):
        forward = attention_bytes("ring", ranks, **SIZES, part="forward")
        assert forward == 2 * WHOLE * (ranks - 1) / ranks
        # again, and their gradients go all the way home
        assert attention_bytes("ring", ranks, **SIZES, part="backward") == forward + 2 * WHOLE


def test_over_heads_a_rank_sends_less_the_more_ranks_there_are():
    for ranks in (2, 4, 8):
        forward = attention_bytes("heads", ranks, **SIZES, part="forward")
        assert forward == 4 * WHOLE / ranks * (ranks - 1) / ranks
        assert attention_bytes("heads", ranks, **SIZES) == 2 * forward


def test_gradients_go_round_in_float32():
    half, full = (attention_bytes("ring", 4, **SIZES, itemsize=size) for size in (2, 4))
    assert full - half == 2 * attention_bytes("ring", 4, **SIZES, itemsize=2, part="forward")


def test_one_rank_sends_nothing():
    assert attention_bytes("ring", 1, **SIZES) == attention_bytes("heads", 1, **SIZES) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("star", 4, 64, 32), "method 'star' is unknown; use ring, heads"),
        (("ring", 3, 64, 32), "64 tokens are not cut into 3 equal parts"),
    ],
)
def test_what_cannot_be_is_said(arguments, said):
    with pytest.raises(ValueError, match=said):
        attention_bytes(*arguments)
