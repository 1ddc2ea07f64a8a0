"""Facts of several ranks to words, without ranks."""

import math

import pytest
import torch

from rankbook.prove.facts import measure
from rankbook.prove.verdict import judge, judge_number, percent

TWIN = torch.randn(40, generator=torch.Generator().manual_seed(0))
OTHER = torch.randn(40, generator=torch.Generator().manual_seed(1))


def said(*copies, kind="gradient", twin=TWIN, tolerance=1e-5, floor=0.0):
    """What is said of the ranks' copies of one tensor; "" if nothing."""
    facts = {
        rank: measure("w", "whole", mine, twin, twin.numel(), floor, tolerance)
        for rank, mine in enumerate(copies)
    }
    found = judge(kind, "w", facts)
    return found.says if found else ""


@pytest.mark.parametrize(
    ("copies", "words"),
    [
        ((TWIN, TWIN), ""),
        ((TWIN * (1 + 1e-6), TWIN), ""),
        ((TWIN * (1 + 1e-4), TWIN), "gradient off by 0.01 % on rank 0 only"),
        ((2 * TWIN, 2 * TWIN), "gradient is 2.00 times the twin's"),
        ((TWIN / 4, TWIN / 4), "gradient is 0.250 times the twin's"),
        ((-TWIN,), "gradient is -1.00 times the twin's"),
        ((None, None), "no gradient"),
        ((TWIN, None), "no gradient on rank 1 only"),
        ((0 * TWIN,), "gradient is zero"),
        ((TWIN * math.nan,), "gradient is not finite"),
    ],
)
def test_words_for_a_gradient(copies, words):
    assert said(*copies) == words


def test_ranks_that_hold_different_ones():
    hold = "ranks 0 and 1 hold different ones"
    assert said(TWIN - OTHER, OTHER).endswith(f": {hold}, whose sum is the twin's")
    assert said(TWIN - OTHER, TWIN + OTHER).endswith(f": {hold}, whose mean is the twin's")
    assert said(OTHER, TWIN + OTHER).endswith(f": {hold}")
    more = said(TWIN / 2 + OTHER, TWIN / 2 - OTHER, TWIN / 2 + 2 * OTHER, TWIN / 2 - 2 * OTHER)
    assert more.endswith("ranks 0, 1, 2 and 3 hold different ones, whose sum is 2 times the twin's")
    four = said(TWIN - OTHER, TWIN - OTHER, TWIN + OTHER, TWIN + OTHER)
    assert four.endswith(": ranks 0 and 2 hold different ones, whose mean is the twin's")


def test_all_hold_the_same_wrong_one():
    assert said(TWIN + OTHER, TWIN + OTHER) == f"gradient off by {_off(OTHER)} %"


def _off(apart):
    return f"{100 * float(apart.double().norm() / TWIN.double().norm()):.3g}"


def test_words_for_the_other_kinds():
    assert said(TWIN + OTHER, kind="before") == f"value before the step off by {_off(OTHER)} %"
    assert said(0 * TWIN, kind="after") == "did not change in the step"
    assert said(3 * TWIN, kind="after") == "change in the step is 3.00 times the twin's"
    assert said(OTHER, twin=0 * TWIN) == "gradient is there, and the twin has none"
    assert said(OTHER, twin=0 * TWIN, kind="after").startswith("change in the step is not zero")


def test_a_gradient_that_is_zero_but_for_rounding():
    """Of attention's key bias: exactly zero; two ways of computing it have nothing in common."""
    noise, others = 1e-9 * TWIN, 1e-9 * OTHER
    assert said(others, twin=noise)
    assert said(others, twin=noise, floor=1e-3) == ""


@pytest.mark.parametrize(
    ("kind", "mine", "words"),
    [
        ("loss", [2.0, 2.0], None),
        ("loss", [1.5, 2.5], None),
        ("loss", [None, 2.0], None),
        ("loss", [None, None], None),
        ("loss", [0.5, 0.5], "loss 0.5, and the twin's is 2: 0.250 times"),
        ("loss", [1.5, 2.7], "loss 1.5 and 2.7, and the twin's is 2: off by 5 %"),
        ("norm", [2.0, 2.0], None),
        ("norm", [4.0, 4.0], "norm 4, and the twin's is 2: 2.00 times"),
        ("norm", [1.5, 2.5], "norm 1.5 and 2.5, and the twin's is 2"),
        ("norm", [1.2, 1.6], "norm 1.2 and 1.6, and the twin's is 2: each rank's own, whose "
         "squares add up to the twin's"),
        ("norm", [math.nan, 2.0], "norm nan and 2, and the twin's is 2"),
    ],
)  # fmt: skip
def test_loss_and_norm(kind, mine, words):
    difference, _ = judge_number(kind, mine, 2.0, 1e-5)
    assert (difference.says if difference else None) == words


def test_percent():
    assert [percent(x) for x in (0.48, 0.0031, 12.0, math.inf)] == [
        "48 %",
        "0.31 %",
        "12 times its size",
        "more than any number",
    ]
