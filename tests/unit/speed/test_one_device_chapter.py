"""What chapter 31 claims of formats, microbatches, graphs and tests, which no module holds."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from rankbook.models import Classifier
from rankbook.speed import make_batch, size, synthetic
from rankbook.speed.loop import Training
from rankbook.speed.recipes import recipe

SMALL = size("cpu", vocab_size=200, layers=1, d_model=32, d_hidden=64, heads=1, max_length=64)
HALF = recipe("sdpa", "cpu").replace(precision="fp16")


@pytest.fixture(scope="module")
def packed():
    return make_batch(synthetic(12, SMALL), list(range(12)), "packed")


def vanished(packed, precision: str, factor: float) -> float:
    """The share of the gradient's values that are zero; NaN if some are not finite."""
    training = Training(HALF.replace(precision=precision), SMALL)
    loss, _ = training.forward_pass(packed)
    (loss * factor).backward()
    named = training.model.named_parameters()
    values = torch.cat([p.grad.flatten() for name, p in named if "embed" not in name])
    return (values == 0).float().mean().item() if values.isfinite().all() else float("nan")


def test_small_gradients_vanish_in_fp16_and_a_factor_brings_them_back(packed):
    exact = vanished(packed, "float32", 1)
    assert vanished(packed, "fp16", 1) > exact + 0.02
    assert vanished(packed, "fp16", 2**14) == pytest.approx(exact, abs=0.01)
    assert vanished(packed, "bf16", 1) == pytest.approx(exact, abs=0.01)


def test_too_large_a_factor_is_infinite_and_the_scaler_skips_the_step(packed):
    assert vanished(packed, "fp16", 2.0**30) != vanished(packed, "fp16", 2.0**30)  # NaN
    training = Training(HALF, SMALL)
    training.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    before = [p.detach().clone() for p in training.model.parameters()]
    training.step(packed)
    after = training.model.parameters()
    assert all(torch.equal(p, q) for p, q in zip(before, after, strict=True))
    assert training.scaler.get_scale() == 2.0**29


def test_a_weight_in_bf16_does_not_feel_small_updates():
    weight = torch.ones(1, dtype=torch.bfloat16)
    for _ in range(100):
        weight -= 0.0019
    assert weight.item() == 1


def test_mean_of_unequal_means_is_another_gradient(packed):
    def gradient(parts, weigh):
        model = Classifier(SMALL.model).initialise(seed=0)
        for part in parts:
            (cross_entropy(model(*part.inputs), part.labels) * weigh(part)).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = gradient([packed], lambda part: 1)
    parts = [packed.rows(range(8)), packed.rows(range(8, 12))]
    by_samples = gradient(parts, lambda part: len(part) / 12)
    by_parts = gradient(parts, lambda part: 1 / 2)
    torch.testing.assert_close(by_samples, whole, rtol=0, atol=1e-6)
    assert (by_parts - whole).norm() > 0.01 * whole.norm()


def test_drop_last_leaves_reviews_untested():
    for rows, left in ((5_000, 8), (10_000, 4)):
        batches = DataLoader(range(rows), batch_size=12, drop_last=True)
        assert rows - 12 * len(batches) == left


def test_eval_in_the_loop_needs_train_in_the_loop():
    network = nn.Dropout(0.1).train()
    seen = []
    for _ in range(3):
        seen.append(network.training)
        network.eval()  # for the accuracy of the batch, as the Fabric listing does
    assert seen == [True, False, False]
