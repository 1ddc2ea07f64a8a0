"""Three routes of fine-tuning: what learns, what stays bit for bit, and what is extracted."""

import pytest
import torch
from torch.nn import functional as F

from rankbook.models.classifier import Classifier
from rankbook.speed.batches import make_batch
from rankbook.speed.reviews import synthetic
from rankbook.speed.routes import ROUTES, body, extract, train_only
from rankbook.speed.sizes import size

TINY = size("cpu", layers=2, d_model=16, d_hidden=32, vocab_size=100, max_length=30)


@pytest.fixture
def model():
    return Classifier(TINY.model).initialise(seed=0)


@pytest.fixture
def batch():
    return make_batch(synthetic(6, TINY), range(6), "longest of batch")


def test_a_route_trains_what_it_says(model):
    learns = {}
    for route in ROUTES:
        chosen = train_only(model, route)
        names = [name for name, p in model.named_parameters() if p.requires_grad]
        assert len(chosen) == len(names)
        learns[route] = names
    assert learns["features"] == []
    assert len(learns["all layers"]) == len(list(model.parameters()))
    tops = ("distilbert.transformer.layer.1.", "pre_classifier.", "classifier.")
    assert all(name.startswith(tops) for name in learns["last layer"])
    assert any(name.startswith(tops[0]) for name in learns["last layer"])


def test_the_layers_below_stay_as_they_are(model, batch):
    learning = train_only(model, "last layer")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    adam = torch.optim.Adam(learning, lr=1e-2)
    F.cross_entropy(model(*batch.inputs), batch.labels).backward()
    adam.step()
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) == (p.grad is None), name


def test_an_unknown_route_is_one_sentence(model):
    with pytest.raises(ValueError, match="route 'head' is unknown; use one of: features, "):
        train_only(model, "head")


def test_the_body_is_what_the_head_reads(model, batch):
    model.eval()
    first = body(model, batch.ids, batch.mask)[:, 0]
    logits = model.classifier(F.relu(model.pre_classifier(first)))
    assert torch.allclose(logits, model(*batch.inputs), atol=1e-6)


def test_features_know_no_padding_and_no_gradient(model, batch):
    for pooling in ("first", "mean"):
        found = extract(model, [batch], pooling)
        assert found.shape == (6, 16) and not found.requires_grad
        for row in range(6):
            length = int(batch.mask[row].sum())
            alone = body(model, batch.ids[row : row + 1, :length])
            expected = alone[:, 0] if pooling == "first" else alone.mean(1)
            assert torch.allclose(found[row], expected[0], atol=1e-5)
    with pytest.raises(ValueError, match="pooling 'last' is unknown; use first or mean"):
        extract(model, [batch], "last")
