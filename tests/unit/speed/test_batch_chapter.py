"""What chapter 35 claims of rates, microbatches and checkpointing, which no module holds."""

from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch.nn.functional import cross_entropy

from rankbook.models import Classifier, classifier
from rankbook.parallel.pipeline import SavedBytes
from rankbook.speed import make_batch, size, synthetic
from rankbook.speed.epochs import train
from rankbook.speed.proof import Outcome, caught, check, control, gradients_of, trained
from rankbook.speed.recipes import recipe
from tests.unit.speed.test_proof import SMALL

TWELVE = list(range(12))


@pytest.fixture(scope="module")
def reviews():
    return synthetic(240, SMALL)


@pytest.fixture(scope="module")
def packed(reviews):
    return make_batch(reviews, TWELVE, "packed")


def test_mean_of_unequal_means_is_caught(reviews, packed):
    model = trained(SMALL, reviews)
    right = control(model, packed)
    parts = [packed.rows(range(0, 8)), packed.rows(range(8, 12))]

    def accumulated(weigh) -> Outcome:
        model.zero_grad()
        loss, logits = 0.0, []
        for part in parts:
            logits.append(model(*part.inputs))
            each = weigh(part) * cross_entropy(logits[-1], part.labels)
            each.backward()
            loss += each.item()
        return Outcome(loss, torch.cat(logits).detach().double(), gradients_of(model))

    check(accumulated(lambda part: len(part) / 12), right, "float32", SMALL.model)
    assert "off by" in caught(
        accumulated(lambda part: 1 / len(parts)), right, "float32", SMALL.model
    )


@pytest.fixture(scope="module")
def holes():
    return size(
        "cpu", vocab_size=200, layers=2, d_model=32, d_hidden=64, heads=1, max_length=128,
        dropout=0.1,
    ).model  # fmt: skip


def gradient(config, batch, checkpointing: bool) -> torch.Tensor:
    model = Classifier(config, checkpointing=checkpointing).initialise(0).double().train()
    torch.manual_seed(0)
    cross_entropy(model(*batch.inputs), batch.labels).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def test_the_second_forward_pass_has_the_same_holes(holes, packed):
    kept = gradient(holes, packed, False)
    assert torch.allclose(gradient(holes, packed, True), kept, rtol=1e-12, atol=1e-15)
    forgetful = partial(classifier.checkpoint, preserve_rng_state=False)
    with patch.object(classifier, "checkpoint", forgetful):
        wrong = gradient(holes, packed, True)
    assert (wrong - kept).norm() > 1e-3 * kept.norm()


def test_checkpointing_keeps_the_layers_inputs_and_little_more(holes, packed):
    saved = {}
    for checkpointing in (False, True):
        model = Classifier(holes, attention="sdpa", checkpointing=checkpointing)
        counter = SavedBytes()
        counter.watch(model)
        model(*packed.inputs).sum().backward()
        saved[checkpointing] = counter.peak
    inputs = 2 * packed.tokens * 32 * 4
    assert inputs <= saved[True] < saved[False] / 2


def test_a_larger_batch_at_the_same_rate_gets_less_far(reviews):
    """The loss of the last epoch: more steps, or longer ones, have brought it down further."""
    tiny = size(
        "cpu", vocab_size=200, layers=1, d_model=16, d_hidden=32, heads=1, max_length=128, lr=1e-3,
        samples=120, validation=5, test=5, epochs=8,
    )  # fmt: skip
    splits = {name: synthetic(count, tiny, 0) for name, count in tiny.splits.items()}
    twelve = recipe("fused", "cpu").replace(workers=0)
    last = {}
    for name, changes in {
        "12": {},
        "48, sqrt": {"batch_times": 4},
        "48, same": {"batch_times": 4, "rate_rule": "same"},
    }.items():
        losses = train(twelve.replace(**changes), tiny, splits).losses
        steps = len(losses) // tiny.epochs
        last[name] = sum(losses[-steps:]) / steps
    assert last["12"] < last["48, sqrt"] < last["48, same"]
