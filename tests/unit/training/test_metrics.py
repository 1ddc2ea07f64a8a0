"""Losses weighted by tokens, and the unigram model beside them."""

import math

import pytest
import torch
from torch.nn import functional as F

from rankbook.models import token_loss
from rankbook.training import batchify, mean_loss, padded, perplexity, unigram_loss, windows


def test_mean_loss_weighs_every_token_alike():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(7, (3 * 14,), generator=generator)
    logits = torch.randn(7, 7, generator=generator)  # of a model that looks at one token
    source = batchify(ids, 3)

    def loss_of(tokens, targets):
        return token_loss(logits[tokens], targets)

    # 13 columns to predict, in windows of 5, 5 and 3
    expected = F.cross_entropy(logits[source[:, :-1].flatten()], source[:, 1:].flatten()).item()
    assert mean_loss(loss_of, windows(source, 5)) == pytest.approx(expected, rel=1e-6)
    long = padded(windows(source, 5), 5)
    assert mean_loss(loss_of, long) == pytest.approx(expected, rel=1e-6)
    unweighted = [loss_of(*batch).item() for batch in windows(source, 5)]
    assert abs(sum(unweighted) / 3 - expected) > 1e-3  # or the test could not fail


def test_mean_loss_of_nothing():
    with pytest.raises(ValueError, match="there are no batches"):
        mean_loss(token_loss, [])


def test_perplexity():
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert perplexity(1e6) == math.inf


def test_unigram_loss():
    train, ids = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 2])
    # counts 3, 1, 0, and one more of each: 4/7, 2/7, 1/7
    expected = -(math.log(4 / 7) + math.log(2 / 7) + math.log(1 / 7)) / 3
    assert unigram_loss(train, ids, 3) == pytest.approx(expected)
    assert unigram_loss(torch.arange(9), torch.arange(9), 9) == pytest.approx(math.log(9))
