"""The proof passes what is right in every format, and catches every sabotage in every format."""

import pytest
import torch

from rankbook.models import Classifier
from rankbook.speed import Reviews, make_batch, size, synthetic
from rankbook.speed.proof import (
    ROUNDOFF,
    Outcome,
    allowed,
    caught,
    check,
    control,
    gradients_of,
    kept,
    off,
    outcome,
    padded,
    trained,
)
from rankbook.speed.sabotage import SABOTAGES, SUBTLE

SMALL = size("cpu", vocab_size=200, layers=1, d_model=64, d_hidden=128, heads=1, max_length=128)
FORMATS = ("float64", "float32", "tf32", "fp16", "bf16")
WAYS = ("longest of all", "longest of batch", "packed")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # operations too small to share
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def reviews():
    return synthetic(240, SMALL)


@pytest.fixture(scope="module")
def model(reviews):
    return trained(SMALL, reviews)


@pytest.fixture(scope="module")
def batches(reviews):
    texts = [torch.cat([reviews.text(i)[: 4 + 9 * i], reviews.text(i)[-1:]]) for i in range(12)]
    uneven = Reviews.of(texts, reviews.labels[:12], reviews.vocabulary)
    return {way: make_batch(uneven, list(range(12)), way, 128) for way in WAYS}


@pytest.fixture(scope="module")
def right(model, batches):
    return control(model, batches["packed"])


@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_what_is_right_passes_with_room(model, batches, right, precision, way, attention):
    model.attention = attention
    batch = batches[way]
    distance = check(outcome(model, batch, precision=precision), right, precision,
                     model.config, batch.computed)  # fmt: skip
    assert distance.worst[1] < allowed(precision, model.config, batch.computed) / 2


@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_every_sabotage_is_caught_in_every_format(model, batches, right, precision, sabotage):
    for way in ("longest of all", "packed"):
        if way != "packed" and sabotage == "positions not restarted":
            continue
        with SABOTAGES[sabotage]():
            found = outcome(model, batches[way], precision=precision)
        caught(found, right, precision, model.config)
        assert off(found, right).worst[1] > 3 * allowed("bf16", model.config), way


@pytest.mark.parametrize("sabotage", SUBTLE)
@pytest.mark.parametrize("way", WAYS)
def test_a_subtle_sabotage_is_caught_in_float64_and_hidden_in_bf16(
    model, batches, right, way, sabotage
):
    batch = batches[way]
    with SUBTLE[sabotage]():
        found = outcome(model, batch, precision="float64")
        rounded = outcome(model, batch, precision="bf16")
    caught(found, right, "float64", model.config, batch.computed)
    check(rounded, right, "bf16", model.config, batch.computed)


def test_float64_catches_on_a_fresh_model_too(batches):
    """Its attention is hardly more than an average, and still no sabotage hides behind rounding."""
    fresh, batch = Classifier(SMALL.model).initialise(0), batches["packed"]
    right = control(fresh, batch)
    check(outcome(fresh, batch, precision="float64"), right, "float64", SMALL.model, batch.tokens)
    for sabotage in (SABOTAGES | SUBTLE).values():
        with sabotage():
            found = outcome(fresh, batch, precision="float64")
        caught(found, right, "float64", SMALL.model, batch.tokens)


def test_float64_is_the_models_own_path(model, batches):
    with pytest.raises(ValueError, match="float64 runs a copy"):
        outcome(model, batches["packed"], precision="float64", forward=model)
    assert next(model.parameters()).dtype == torch.float32


def test_sabotage_ends_with_its_block(model, batches, right):
    for sabotage in (SABOTAGES | SUBTLE).values():
        with sabotage():
            pass
    batch = batches["packed"]
    check(outcome(model, batch, precision="float64"), right, "float64", model.config, batch.tokens)


def test_a_shifted_mask_needs_a_mask(model, batches):
    whole = batches["packed"].rows([0])
    bare = padded(whole)
    with SABOTAGES["mask shifted by one"](), pytest.raises(ValueError, match="no mask"):
        model(bare.ids)


def test_a_fresh_model_proves_nothing(reviews, batches):
    """Why `trained` exists: without its values, the attention of a fresh one hides behind bf16."""
    fresh = Classifier(SMALL.model).initialise(0)
    right = control(fresh, batches["packed"])
    with SABOTAGES["without values"]():
        found = outcome(fresh, batches["packed"], precision="bf16")
    assert off(found, right).loss < 0.01
    with SABOTAGES["mask shifted by one"]():
        found = outcome(fresh, batches["packed"], precision="bf16")
    with pytest.raises(AssertionError, match="not caught"):
        caught(found, right, "bf16", SMALL.model)


def test_trained_is_repeatable_and_a_copy(reviews, model):
    again = trained(SMALL, reviews)
    with torch.no_grad():
        next(again.parameters()).zero_()
    other = trained(SMALL, reviews)
    model_weights = dict(model.named_parameters())
    for name, weight in other.named_parameters():
        assert torch.equal(weight, model_weights[name])


def test_check_names_the_first_part_that_is_off():
    right = Outcome(1.0, torch.ones(2, 2), {"a": torch.ones(4), "b": torch.zeros(4)})
    wrong = Outcome(1.0, torch.ones(2, 2), {"a": 1.5 * torch.ones(4), "b": torch.zeros(4)})
    with pytest.raises(AssertionError, match=r"gradient of a off by 5\.0e-01; bf16 allows"):
        check(wrong, right, "bf16", SMALL.model)
    lost = Outcome(float("nan"), torch.ones(2, 2), right.gradients)
    with pytest.raises(AssertionError, match="loss off by nan"):
        check(lost, right, "float32", SMALL.model)
    assert off(lost, right).worst[0] == "loss"
    assert "loss" in caught(lost, right, "float32", SMALL.model)
    with pytest.raises(AssertionError, match="proof is void"):
        caught(right, right, "float32", SMALL.model)
    with pytest.raises(ValueError, match="different parameters"):
        off(Outcome(1.0, torch.ones(2, 2), {}), right)


def test_a_zero_gradient_is_measured_against_the_usual_one():
    right = Outcome(1.0, torch.ones(1), {"a": torch.full((1,), 2.0), "b": torch.zeros(1)})
    found = Outcome(1.0, torch.ones(1), {"a": torch.full((1,), 2.0), "b": torch.full((1,), 1e-3)})
    assert off(found, right).gradients["b"] == pytest.approx(1e-3 / 2**0.5)


def test_allowed_grows_with_the_format_and_the_layers():
    limits = [allowed(name, SMALL.model) for name in ROUNDOFF]
    assert limits == sorted(limits) and limits[0] < 1e-10
    deep = size("cpu", layers=6).model
    assert allowed("bf16", deep) > allowed("bf16", SMALL.model)
    assert allowed("float32", SMALL.model, 500) < allowed("float32", SMALL.model) / 8
    assert allowed("float32", SMALL.model, 1) == allowed("float32", SMALL.model, 128)  # the width
    with pytest.raises(ValueError, match="fp8"):
        allowed("fp8", SMALL.model)


def test_outcome_leaves_the_model_as_it_was(model, batches):
    model.train()
    outcome(model, batches["packed"], precision="bf16")
    assert model.training and all(p.grad is None for p in model.parameters())
    model.eval()


def test_a_scaled_loss_gives_the_same_gradients(model, batches, right):
    check(outcome(model, batches["packed"], precision="fp16", scale=2.0**10), right, "fp16",
          model.config)  # fmt: skip


def test_gradients_of_what_was_left_by_a_backward_pass(model, batches, right):
    with kept(model):
        batch = batches["packed"]
        torch.nn.functional.cross_entropy(model(*batch.inputs), batch.labels).backward()
        left = gradients_of(model)
        model.zero_grad()
    assert off(Outcome(right.loss, right.logits, left), right).worst[1] < 1e-4


def test_kept_brings_the_weights_back(model):
    first = next(model.parameters())
    before = first.detach().clone()
    with kept(model), torch.no_grad():
        first.zero_()
    assert torch.equal(first, before)
