"""`prove` in one process without a group: steps, optimizers, names, tolerances."""

import copy

import pytest
import torch
from torch import nn

from rankbook.prove import prove
from rankbook.prove.digest import digest
from rankbook.prove.inputs import SAFETY
from rankbook.prove.names import twin_parameters


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


BATCH = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def step(model, batch):
    loss = model(batch).square().mean()
    loss.backward()
    return loss


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def test_without_a_process_group_and_with_the_same_step():
    part = model()
    report = prove(step, part, sgd(part), BATCH, twin=model(), max_norm=1e-3)
    assert str(report) == "right: loss, 4 gradients, norm, 4 parameters after a step; identical"


def test_without_an_optimizer_the_gradients_are_the_end():
    assert str(prove(step, model(), None, BATCH, twin=model())) == (
        "right: loss, 4 gradients; identical"
    )


def test_in_half_of_the_microbatches_the_loss_is_forgotten():
    def two(model, batch):
        return sum(step(model, rows) for rows in batch.split(3)) / 2

    report = prove(two, model(), None, BATCH, twin=model(), twin_step=step)
    assert report.first.kind == "loss"
    assert {d.kind for d in report.differences} == {"loss", "gradient"}


def test_what_raises_is_raised_as_it_is():
    def broken(model, batch):
        raise KeyError("rows")

    with pytest.raises(KeyError, match="rows"):
        prove(broken, model(), None, BATCH, twin=model(), twin_step=step)


def test_a_clip_needs_a_norm():
    with pytest.raises(ValueError, match="clip needs max_norm"):
        prove(step, model(), None, BATCH, twin=model(), clip=nn.utils.clip_grad_norm_)


def test_a_norm_below_the_limit_is_noted():
    report = prove(step, model(), None, BATCH, twin=model(), max_norm=1e6)
    assert report.right and report.notes[0].endswith("is below max_norm: nothing was clipped")


def test_modes_that_differ_are_noted():
    report = prove(step, model().eval(), None, BATCH, twin=model())
    assert report.notes == (
        "model and twin are not in the same mode: call train() or eval() on both",
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True),
        lambda m: torch.optim.AdamW(
            [
                {"params": [m[0].weight, m[2].weight], "weight_decay": 0.5, "lr": 0.01},
                {"params": [m[0].bias, m[2].bias], "weight_decay": 0.0},
            ],
            lr=1e-3,
        ),
        lambda m: torch.optim.Adagrad(m.parameters()),
        lambda m: [
            torch.optim.SGD(m[0].parameters(), 0.1),
            torch.optim.AdamW(m[2].parameters(), 1e-2),
        ],
        lambda m: torch.optim.SGD([m[0].weight], 0.1),  # the others are frozen on purpose
        lambda m: torch.optim.SGD(m.named_parameters(), 0.1),
    ],
)
def test_the_twins_optimizer_is_made_alike(make):
    part = model()
    report = prove(step, part, make(part), BATCH, twin=model(), steps=2)
    assert report.right, report


def test_an_optimizer_that_cannot_be_made_is_asked_for():
    class Odd(torch.optim.SGD):
        def __init__(self, parameters, factory):
            super().__init__(parameters, lr=factory())

    part, twin = model(), model()
    odd = Odd(part.parameters(), lambda: 0.1)
    with pytest.raises(ValueError, match=r"no Odd could be made for the twin .*twin_optimizer="):
        prove(step, part, odd, BATCH, twin=twin)
    assert prove(step, part, odd, BATCH, twin=twin, twin_optimizer=sgd(twin)).right
    worse = torch.optim.SGD(twin.parameters(), lr=0.3)
    report = prove(step, part, odd, BATCH, twin=twin, twin_optimizer=worse)
    assert report.first.says == "change in the step is 0.333 times the twin's"


def test_adam_of_a_gradient_that_is_only_rounding():
    """Without the twin's gradients in place, Adam would make whole steps of the noise."""

    class Shifted(nn.Module):
        """Whose shift is the same for all that softmax compares: its gradient is zero."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.shift = nn.Linear(3, 4), nn.Parameter(torch.randn(1))

        def forward(self, x):
            return (self.inner(x) + self.shift).softmax(-1) * torch.arange(4.0)

    def by_rows(model, batch):
        losses = []
        for row in batch:
            losses.append(model(row).square().mean() / len(batch))
            losses[-1].backward()
        return sum(losses)

    part = Shifted()
    adam = torch.optim.Adam(part.parameters(), 0.1)
    report = prove(by_rows, part, adam, BATCH, twin=Shifted(), twin_step=step)
    assert report.right, report


def test_compiled_and_checkpointed_names_are_seen_through():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    part = model()
    part[0] = checkpoint_wrapper(part[0])
    assert prove(step, torch.compile(part, backend="eager"), None, BATCH, twin=model()).right


def test_tied_parameters_have_the_first_of_their_names():
    twin = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    twin["b"].weight = twin["a"].weight
    parameters, first = twin_parameters(twin)
    assert list(parameters) == ["a.weight", "a.bias", "b.bias"]
    assert first["b.weight"] == "a.weight"


def test_a_model_that_forgot_to_tie():
    class Tied(nn.Module):
        def __init__(self, tie):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight if tie else nn.Parameter(self.a.weight.detach().clone())

        def forward(self, x):
            return self.b(self.a(x))

    report = prove(step, Tied(False), None, BATCH, twin=Tied(True))
    assert [d.name for d in report.differences] == ["a.weight", "b.weight"]
    assert {d.kind for d in report.differences} == {"gradient"}


def test_several_stages_in_a_list():
    whole = model()
    parts = [nn.Sequential(whole[0], whole[1]), whole[2]]
    calls = iter(["0.weight", "0.bias", "2.weight", "2.bias"])

    def through(parts, batch):
        loss = parts[1](parts[0](batch)).square().mean()
        loss.backward()
        return loss

    report = prove(
        through, parts, None, BATCH, twin=model(), twin_step=step, names=lambda _: next(calls)
    )
    assert report.right


def test_the_tolerance_follows_the_dtype():
    of = {
        dtype: prove(step, model().to(dtype), None, BATCH.to(dtype), twin=model().to(dtype))
        for dtype in (torch.float64, torch.float32, torch.bfloat16)
    }
    eps = torch.finfo(torch.float32).eps
    assert of[torch.float32].tolerance == pytest.approx(SAFETY * eps * (1 + (15 + 4) ** 0.5))
    assert of[torch.float64].tolerance < 1e-13
    assert 0.05 < of[torch.bfloat16].tolerance < 0.1
    assert "a proof in float32 sees more" in of[torch.bfloat16].notes[0]
    strict = prove(step, model(), None, BATCH, twin=model(), tolerance=0.5)
    assert strict.tolerance == 0.5


def test_frozen_parameters_have_no_gradient_on_either_side():
    part, twin = model(), model()
    for each in (part, twin):
        each[0].weight.requires_grad_(False)
    assert prove(step, part, sgd(part), BATCH, twin=twin).compared["gradient"] == 4
    twin[0].weight.requires_grad_(True)
    assert str(prove(step, part, None, BATCH, twin=twin)) == "WRONG: 0.weight: no gradient"
    assert "0.weight: gradient is there, and the twin has none" in str(
        prove(step, twin, None, BATCH, twin=part)
    )


def test_other_values_end_the_proof_there():
    part = copy.deepcopy(model())
    with torch.no_grad():
        part[2].bias += 1
    report = prove(step, part, None, BATCH, twin=model())
    assert [d.kind for d in report.differences] == ["before"] and part[2].bias.grad is None


def test_a_digest_sees_values_shapes_and_places():
    a, b = torch.ones(2, 3), torch.zeros(2)
    words = [(a, b), (b, a), (a.view(3, 2), b), [a], {"a": a}, (a.double(), b), "a", 1, None]
    assert len({digest(w) for w in words}) == len(words)
    assert digest((a, [b])) == digest([a.clone(), b.clone()])
