"""A card of one's own, as one writes it."""

import pytest

from rankbook.predict.plan.own_card import read_card

OWN = "name=x,memory=48e9,flops=360e12,bandwidth=864e9,inside=32e9,between=12.5e9"


def test_it_is_read():
    card = read_card(OWN)
    assert (card.name, card.memory, card.flops, card.bandwidth) == ("x", 48e9, 360e12, 864e9)
    assert (card.inside.beta, card.between.beta) == (1 / 32e9, 1 / 12.5e9)
    assert card.per_node == 8 and read_card(OWN + ",per_node=4").per_node == 4


def test_known_ones_have_names():
    assert read_card("H200").memory > 140e9


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h300", "'h300' is unknown; known are v100-32"),
        ("h300", "Describe another: --gpu name=x,memory=48e9"),
        ("memory=48e9", "the card lacks flops (FLOP/s of bf16 products), bandwidth"),
        (OWN + ",memory", "'memory' describes nothing of a card; there are name, per_node"),
        (OWN + ",cores=8", "'cores=8' describes nothing of a card"),
        (OWN.replace("48e9", "48 GB"), "--gpu: memory=48 GB is no number above 0; write it as"),
        (OWN.replace("360e12", "-1"), "--gpu: flops=-1 is no number above 0"),
        (OWN + ",memory=80e9", "--gpu: memory is given twice; give it once"),
        ("name=," + OWN, "--gpu: name has no value; write name=..., or leave it out"),
        (OWN + ",per_node=0", "'0' is no number of GPUs of a node (--gpu: per_node)"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, says):
    with pytest.raises(ValueError) as error:
        read_card(text)
    assert says in str(error.value) and "\n" not in str(error.value)
