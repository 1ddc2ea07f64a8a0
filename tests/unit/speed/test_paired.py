"""Paired accuracies: the margin is the disagreement's, not that of two independent samples."""

import math

import pytest
import torch

from rankbook.speed.paired import compare


def answers(wrong: list[int], count: int = 100) -> torch.Tensor:
    right = torch.ones(count, dtype=torch.bool)
    right[wrong] = False
    return right


def test_reviews_that_both_get_wrong_do_not_count():
    few = compare(answers([0, 1]), answers([0, 1, 2]))
    many = compare(answers(list(range(40))), answers(list(range(41))))
    assert few.difference == pytest.approx(-0.01) == many.difference
    assert few.margin == pytest.approx(many.margin)
    independent = math.sqrt(2 * 0.6 * 0.4 / 100)
    assert many.reviews < independent / 5


def test_one_seed_is_mcnemar():
    """b reviews turn wrong and c turn right: the variance of c - b is b + c - (c - b)²/n."""
    first, second = answers([0, 1, 2, 3]), answers([4, 5, 6, 7, 8, 9, 10, 11])
    paired = compare(first, second)
    by_hand = math.sqrt((12 - (8 - 4) ** 2 / 100) / 100 / 99)
    assert paired.reviews == pytest.approx(by_hand) and math.isnan(paired.seeds)
    assert paired.disagree == pytest.approx(0.12)


def test_few_seeds_widen_the_margin():
    first = torch.stack([answers([0, 1]), answers([0, 1]), answers([0, 1])])
    steady = torch.stack([answers(list(range(12)))] * 3)
    wild = torch.stack([answers(list(range(n))) for n in (2, 12, 22)])
    assert compare(first, steady).difference == pytest.approx(compare(first, wild).difference)
    assert compare(first, steady).tells and not compare(first, wild).tells


def test_a_recipe_and_itself_do_not_differ():
    paired = compare(answers([3]), answers([3]))
    assert (paired.difference, paired.margin, paired.tells) == (0, 0, False)


@pytest.mark.parametrize("shapes", [((3, 4), (2, 4)), ((1,), (1,)), ((1, 2, 3), (1, 2, 3))])
def test_other_shapes_are_refused(shapes):
    first, second = (torch.ones(shape, dtype=torch.bool) for shape in shapes)
    with pytest.raises(ValueError, match=r"both must be \(seeds, reviews\)"):
        compare(first, second)
