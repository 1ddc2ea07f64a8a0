"""What a mesh may be, and the sentence for each that cannot be."""

import pytest

from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout

CONFIG = TransformerConfig(50, d_model=32, d_hidden=48, heads=4, layers=4)


@pytest.mark.parametrize(
    ("text", "shard", "layout"),
    [
        ("pp=2,dp=2,tp=2", "none", Layout(2, 2, 2)),
        ("tp=4", "none", Layout(tp=4)),
        (" tp=2 , dp=4", "fsdp", Layout(dp=4, tp=2, shard=4)),
        ("dp=4", "2", Layout(dp=4, shard=2)),
        ("dp=1", "fsdp", Layout()),
        ("", "none", Layout()),
    ],
)
def test_a_mesh_is_read(text, shard, layout):
    assert Layout.parse(text, shard) == layout


@pytest.mark.parametrize("text", ["pp=2,dp=2,tp=2", "dp=4,tp=2", "dp=1"])
def test_it_is_written_as_it_is_read(text):
    assert str(Layout.parse(text)) == text


def test_ranks_are_the_product():
    assert Layout(2, 3, 4).ranks == 24 and Layout().ranks == 1


@pytest.mark.parametrize(
    ("text", "shard", "says"),
    [
        ("xp=2", "none", "'xp=2' names no dimension of a mesh; there are pp (the stages of a pi"),
        ("pp", "none", "'pp' names no dimension"),
        ("dp=2,dp=2", "none", "dp is given twice in 'dp=2,dp=2'; give it once"),
        ("tp=0", "none", "tp=0 is no whole number of 1 or more"),
        ("tp=two", "none", "tp=two is no whole number"),
        ("tp=", "none", "tp= is no whole number"),
        ("dp=4", "3", "groups of 3 that share one copy do not divide dp=4"),
        ("dp=2", "4", "groups of 4 that share one copy do not divide dp=2"),
        ("dp=4", "0", "groups of 0 that share one copy"),
        ("dp=4", "zero", "shard 'zero' is unknown; use none, fsdp, or how many share one copy"),
    ],
)
def test_what_cannot_be_is_said(text, shard, says):
    with pytest.raises(ValueError) as error:
        Layout.parse(text, shard)
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("tp", "what"), [(3, "heads, 4"), (8, "heads, 4")])
def test_whole_heads_only(tp, what):
    with pytest.raises(ValueError, match=f"tp={tp} does not divide the model's {what}"):
        Layout(tp=tp).check_model(CONFIG)


def test_equal_parts_of_the_hidden_layer():
    odd = TransformerConfig(50, d_model=32, d_hidden=50, heads=4, layers=4)
    with pytest.raises(ValueError, match="tp=4 does not divide the model's d_hidden, 50"):
        Layout(tp=4).check_model(odd)
    Layout(tp=4).check_model(CONFIG)


def test_equal_parts_of_a_sequence():
    Layout(tp=2).check_window(32)
    with pytest.raises(ValueError, match="tp=2 does not divide sequences of 35 tokens"):
        Layout(tp=2).check_window(35)


def test_an_early_and_a_late_part_of_a_sequence():
    Layout(cp=4).check_window(32)
    Layout(cp=2, tp=2).check_window(16)
    for layout, window, says in (
        (Layout(cp=4), 20, "20 tokens are not cut into 2 x cp=4 equal parts; use a multiple of 8"),
        (Layout(cp=2, tp=2), 12, "into 2 x cp=2 x tp=2 equal parts; use a multiple of 8"),
    ):
        with pytest.raises(ValueError, match=says):
            layout.check_window(window)


def test_weights_of_a_cut_attention_are_not_dropped():
    dropping = TransformerConfig(50, d_model=32, d_hidden=48, heads=4, layers=4, dropout=0.1)
    with pytest.raises(ValueError, match="cp=2 cuts the attention, whose weights cannot be drop"):
        Layout(cp=2).check_model(dropping)
    Layout(cp=2).check_model(CONFIG)
