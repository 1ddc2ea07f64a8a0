"""What chapter 33 claims of 16 bits, and which no module holds: each failure that it names."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from rankbook.models import Classifier
from rankbook.speed import account, make_batch, size, synthetic
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


@pytest.mark.parametrize(("bits", "right"), [(7, True), (6, False), (8, False)])
def test_the_gap_says_which_weights_an_update_moves(packed, bits, right):
    """Weight by weight, after one step of Adam; a gap of one bit more or less is noticed."""
    model = Classifier(SMALL.model, attention="sdpa").initialise(0).bfloat16()
    adam = torch.optim.Adam(model.parameters(), lr=5e-5, fused=True)
    old = torch.cat([p.detach().flatten() for p in model.parameters()])
    cross_entropy(model(*packed.inputs).float(), packed.labels).backward()
    adam.step()
    steep = torch.cat([p.grad.flatten() for p in model.parameters()]).abs() > 1e-6
    moved = (old != torch.cat([p.detach().flatten() for p in model.parameters()]))[steep]
    free = ((old.abs().log2().floor() - bits).exp2() / 2 < 5e-5)[steep]
    assert ((moved == free).float().mean() > 0.99) == right
    mixed = free[torch.randperm(len(free), generator=torch.manual_seed(0))]
    assert (moved == mixed).float().mean() < 0.9


def test_weights_in_bf16_learn_less_than_autocast_does():
    torch.manual_seed(0)
    texts = synthetic(96, SMALL)
    batches = [make_batch(texts, list(range(i, i + 24)), "packed") for i in range(0, 96, 24)]

    def train(model, rate, steps):
        adam = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
        losses = []
        for step in range(steps):
            batch = batches[step % 4]
            adam.zero_grad()
            loss = cross_entropy(model(*batch.inputs).float(), batch.labels)
            loss.backward()
            adam.step()
            losses.append(loss.item())
        return sum(losses[:4]) - sum(losses[-4:])

    learnt = Classifier(SMALL.model, attention="sdpa").initialise(0)
    train(learnt, 2e-3, 40)
    fall = train(copy.deepcopy(learnt), 5e-5, 40)
    assert fall > 0 and train(learnt.bfloat16(), 5e-5, 40) < 0.7 * fall


def test_the_norm_is_clipped_too_early_while_the_loss_is_scaled(packed):
    training = Training(HALF, SMALL)
    loss, _ = training.forward_pass(packed)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    scaler.scale(loss).backward()
    parameters = list(training.model.parameters())
    scaled = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    scaler.unscale_(training.optimizer)
    true = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    assert scaled / true == pytest.approx(2**10, rel=1e-3)


def test_plain_adam_with_a_weight_in_fp16_divides_by_zero():
    weight = torch.ones(1, dtype=torch.float16, requires_grad=True)
    weight.grad = torch.full_like(weight, 1e-5)
    torch.optim.Adam([weight], lr=5e-5).step()
    assert not weight.isfinite()


def test_stream_in_16_bits_halves_the_bytes_of_every_norm(packed):
    found = {}
    for residual in ("float32", "bf16"):
        row = recipe("sdpa", "cpu").replace(precision="bf16", residual=residual)
        found[residual] = account(lambda row=row: Training(row, SMALL).step(packed)).by_kind()
    wide, narrow = (parts["layer norm"].bytes for parts in found.values())
    assert 0.45 < narrow / wide < 0.56
    assert found["bf16"]["matmul"].bytes == found["float32"]["matmul"].bytes
