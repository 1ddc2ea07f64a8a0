"""Cards and machines: what is known of them, and the sentences for what cannot be."""

import pytest

from rankbook.predict.plan.machines import Assumptions, Machines, cards, find_card, make_card


@pytest.mark.parametrize("name", cards())
def test_a_card_is_plausible_and_has_a_source(name):
    card = cards()[name]
    assert card.source.startswith("https://")
    assert 1e9 < card.memory < 1e12
    assert 1e13 < card.flops < 1e16
    assert card.between.beta >= card.inside.beta  # a network is no faster than what is in the box


def test_a_name_in_capitals_is_the_same():
    assert find_card("H200") is find_card("h200")


def test_an_unknown_card_is_told_how_to_describe_it():
    with pytest.raises(ValueError, match=r"'h900' is unknown; known are .*h200.*Describe another"):
        find_card("h900")


def test_gpus_that_are_no_whole_nodes():
    with pytest.raises(ValueError, match="12 GPUs are not whole nodes of 8; use a multiple of 8"):
        Machines(find_card("h200"), 12)
    assert Machines(find_card("h200"), 12, per_node=4).node == 4
    assert Machines(find_card("h200"), 3).gpus == 3  # a part of one node


@pytest.mark.parametrize("word", ["memory", "flops", "bandwidth", "inside", "between"])
def test_a_card_of_nothing(word):
    numbers = dict.fromkeys(("memory", "flops", "bandwidth", "inside", "between"), 1e9)
    with pytest.raises(ValueError, match=f"the card x: {word} is 0; give more than 0"):
        make_card("x", **{**numbers, word: 0})


def test_what_is_left_for_tensors():
    machines = Machines(find_card("h100"), 8, assumed=Assumptions(workspace=2e9, fragments=0.1))
    assert machines.usable == 0.9 * machines.card.memory - 2e9


def test_nothing_is_assumed_below_zero():
    with pytest.raises(ValueError, match="matmul is below 0"):
        Assumptions(matmul=-0.1)


def test_three_on_nodes_of_eight_cross():
    """Ranks 6, 7 and 8 are a group of tensor parallelism, on two nodes."""
    machines = Machines(find_card("h200"), 24)
    assert machines.link(3).name == "between nodes" and machines.link(4).name == "inside a node"
    assert machines.link(2, stride=3).name == "between nodes"  # 6 and 9
    one = Machines(find_card("h200"), 6)
    assert one.link(3).name == one.link(2, stride=3).name == "inside a node"


@pytest.mark.parametrize(("stages", "stride"), [(8, 3), (12, 2), (4, 6), (3, 8), (2, 12), (24, 1)])
def test_hops_that_leave_a_node(stages, stride):
    machines, node = Machines(find_card("h200"), 24), 8
    far = 0
    for stage in range(stages - 1):
        ranks = range(stage * stride, (stage + 1) * stride)
        far += any(r // node != (r + stride) // node for r in ranks)
    names = [link.name for link in machines.hops(stages, stride)]
    assert names.count("between nodes") == far and len(names) == stages - 1
