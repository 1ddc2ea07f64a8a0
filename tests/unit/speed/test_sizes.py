"""Sizes: the original's, a small one, and changes to both."""

import pytest

from rankbook import speed
from rankbook.data.reviews import SPLITS
from rankbook.models import ClassifierConfig
from rankbook.speed import SIZES, size


def test_full_is_the_original():
    full = size("full")
    assert full.splits == SPLITS
    assert (full.batch, full.lr, full.epochs, full.max_length) == (12, 5e-5, 3, 512)
    assert full.model == ClassifierConfig() and full.pretrained


def test_cpu_has_no_dropout_and_random_weights():
    model = size("cpu").model
    assert model.dropout == model.attention_dropout == model.head_dropout == 0
    assert model.max_length == 512 and model.vocab_size == ClassifierConfig().vocab_size
    assert not size("cpu").pretrained


def test_changes_reach_the_size_and_its_model():
    changed = size("cpu", samples=96, d_model=32, dropout=0.5)
    assert changed.splits["train"] == 96 and changed.name == "cpu"
    assert (changed.model.d_model, changed.model.dropout) == (32, 0.5)
    assert changed.test == SIZES["cpu"].test, "the rest stays"
    assert changed.model.layers == SIZES["cpu"].model.layers


def test_wrong_sizes_are_one_sentence():
    with pytest.raises(ValueError, match="size 'gpu' is unknown; use cpu or full"):
        size("gpu")
    with pytest.raises(ValueError, match="no field 'sample'; use one of attention_dropout, batch"):
        size("cpu", sample=9)
    with pytest.raises(ValueError, match="samples is 0; it must be 1 or more"):
        size("cpu", samples=0)


def test_every_name_of_the_package_is_there():
    for name in dir(speed):
        assert getattr(speed, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fast'"):
        speed.fast  # noqa: B018
