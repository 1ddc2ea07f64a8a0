"""What page 32 claims, which no module holds: silent padding, and which kernel packed texts get."""

import warnings
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch

from rankbook.models import classifier
from rankbook.models.attention import Sequences, attend
from rankbook.speed import (
    Reviews,
    Training,
    account,
    caught,
    check,
    control,
    loader,
    make_batch,
    outcome,
    recipe,
    size,
    synthetic,
    trained,
)

SMALL = size("cpu", vocab_size=200, layers=1, d_model=32, d_hidden=64, heads=1, max_length=128)
BRANCHES = {
    "text by text": "rankbook.models.attention._one_by_one",
    "nested tensors": "rankbook.models.attention._jagged",
    "padded inside": "rankbook.models.attention._padded_inside",
    "varlen_attn": "torch.nn.attention.varlen.varlen_attn",
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # operations too small to share
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def reviews():
    return synthetic(60, SMALL)


def taken(where: str, format: torch.dtype, attention: str, dropout: float) -> str:
    """The branch that `attend` takes for packed texts; "meta" stands for a GPU."""
    offsets = torch.tensor([0, 3, 8], dtype=torch.int32, device=where)
    texts = Sequences.packed(torch.empty(8, dtype=torch.int64, device=where), offsets, 5)
    q = torch.empty(8, 1, 16, dtype=format, device=where)
    with ExitStack() as stack:
        stubs = {name: stack.enter_context(patch(place)) for name, place in BRANCHES.items()}
        attend(q, q, q, texts, attention, dropout)
    (name,) = (name for name, stub in stubs.items() if stub.called)
    return name


@pytest.mark.parametrize(
    ("where", "format", "attention", "dropout", "branch"),
    [
        ("cpu", torch.bfloat16, "sdpa", 0.0, "text by text"),
        ("cpu", torch.float32, "eager", 0.1, "text by text"),
        ("meta", torch.bfloat16, "sdpa", 0.0, "varlen_attn"),
        ("meta", torch.float16, "sdpa", 0.0, "varlen_attn"),
        ("meta", torch.bfloat16, "sdpa", 0.1, "nested tensors"),  # DistilBERT's own dropout
        ("meta", torch.float32, "sdpa", 0.0, "nested tensors"),
        ("meta", torch.bfloat16, "eager", 0.0, "padded inside"),
    ],
)
def test_the_kernel_of_packed_texts(where, format, attention, dropout, branch):
    assert taken(where, format, attention, dropout) == branch


def test_nobody_warns_of_padding(reviews):
    training, padding = Training(recipe("plain", "cpu"), SMALL), 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for batch in loader(reviews, "longest of all", 12):
            padding += batch.computed - batch.tokens
            assert training.step(batch).isfinite()
    assert padding > 0
    assert not any("padd" in str(warning.message) for warning in said)


def test_one_token_of_padding_is_seen_in_float64(reviews):
    model = trained(SMALL, reviews, steps=60)
    texts = [torch.cat([reviews.text(i)[: 40 + 7 * i], reviews.text(i)[-1:]]) for i in range(12)]
    uneven = Reviews.of(texts, reviews.labels[:12], reviews.vocabulary)
    batch = make_batch(uneven, list(range(12)), "longest of batch")
    right = control(model, batch)

    def late(q, k, v, texts, *others):
        mask = texts.mask.clone()
        mask[:, 1:] |= texts.mask[:, :-1]
        return attend(q, k, v, texts._replace(mask=mask), *others)

    with patch.object(classifier, "attend", late):
        wrong = outcome(model, batch, precision="float64")
    assert caught(wrong, right, "float64", SMALL.model, batch.computed)
    for precision in ("float64", "float32"):
        found = outcome(model, batch, precision=precision)
        check(found, right, precision, SMALL.model, batch.computed)


def test_sdpa_saves_less_once_a_batch_is_packed(reviews):
    def moved(way: str, attention: str) -> int:
        training = Training(recipe("seldom", "cpu").replace(attention=attention), SMALL)
        batch = make_batch(reviews, list(range(12)), way)
        return account(lambda: training.step(batch)).bytes

    saved = {way: moved(way, "eager") - moved(way, "sdpa") for way in ("longest of all", "packed")}
    assert saved["packed"] < saved["longest of all"]
