"""What page 36 says of its owners and routes: when one fails, its sentence has to go."""

import inspect
import sys
from unittest.mock import patch

import pytest
import torch
from torch.utils.data import DataLoader

from rankbook.models.classifier import Classifier
from rankbook.speed import lightning_runner
from rankbook.speed.batches import make_batch
from rankbook.speed.lightning_runner import fit
from rankbook.speed.reviews import synthetic
from rankbook.speed.routes import route_flop, train_only
from rankbook.speed.sizes import size
from rankbook.speed.stopwatch import Stopwatch
from rankbook.speed.strategies import loops

lightning = pytest.importorskip("lightning")
TINY = size("cpu", layers=2, d_model=16, d_hidden=32, vocab_size=50, max_length=30)
HALVED = lightning_runner, "_module", "return loss\n", "return loss / 2\n"
DETACHED = lightning_runner, "_module", "return loss\n", "return loss.detach()\n"
NOT_ZEROED = loops, "on_fabric", "optimizer.zero_grad()", "pass"
NO_BACKWARD = loops, "on_fabric", "fabric.backward(loss)", "pass"


def spoiled(module, name, line, instead):
    function = getattr(module, name)
    source, space = inspect.getsource(function), function.__globals__.copy()
    assert source.count(line) == 1
    exec(source.replace(line, instead), space)
    return patch.object(module, name, space[name])


def batches(count=3):
    reviews = synthetic(12, TINY)
    return [make_batch(reviews, range(4 * i, 4 * i + 4), "longest of batch") for i in range(count)]


def trainer(model, optimizer, stream):
    return fit(model, optimizer, stream).losses


def fabric(model, optimizer, stream):
    from rankbook.speed.strategies.fabric import make_fabric

    found = loops.on_fabric(model, optimizer, DataLoader(stream, batch_size=None), make_fabric())
    return torch.stack(found).tolist()


def plain(model, optimizer, stream):
    return torch.stack(loops.plain(model, optimizer, stream, "cpu")).tolist()


def losses(owner, make=torch.optim.SGD, lr=0.5):
    # larger weights than DistilBERT's, so that a step of SGD changes the losses
    model = Classifier(TINY.model).initialise(seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0 if parameter.dim() > 1 else 1.0)
    return owner(model, make(model.parameters(), lr=lr), Stopwatch(batches()))


@pytest.mark.parametrize("owner", [fabric, trainer])
def test_all_owners_train_alike(owner):
    assert losses(owner) == pytest.approx(losses(plain), rel=1e-4)


@pytest.mark.parametrize(
    ("owner", "change"), [(fabric, NOT_ZEROED), (fabric, NO_BACKWARD), (trainer, HALVED)]
)
def test_a_spoiled_line_shows_under_sgd(owner, change):
    right = losses(owner)
    with spoiled(*change):
        found = losses(owner)
    assert found[0] == pytest.approx(right[0], rel=1e-6)  # before any update
    assert found != pytest.approx(right, rel=1e-3)


def test_adam_hides_a_halved_loss():
    how = {"make": torch.optim.Adam, "lr": 1e-3}
    right = losses(trainer, **how)
    with spoiled(*HALVED):
        assert losses(trainer, **how) == pytest.approx(right, rel=1e-3)


def test_a_detached_loss_is_an_error():
    with spoiled(*DETACHED), pytest.raises(RuntimeError, match="does not require grad"):
        losses(trainer)


def calls(owner, count):
    seen = 0

    def note(frame, event, argument):
        nonlocal seen
        seen += event == "call"

    model = Classifier(TINY.model).initialise(seed=0)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        owner(model, sgd, batches(count))
    finally:
        sys.setprofile(before)
    return seen


def test_owners_add_python_to_a_step():
    each = {owner: calls(owner, 3) - calls(owner, 1) for owner in (plain, fabric, trainer)}
    assert each[plain] < each[fabric] < each[trainer]


def test_without_requires_grad_off_nothing_is_saved():
    batch = batches(1)[0]

    def cost(route, freeze):
        model = Classifier(TINY.model).initialise(seed=0)
        train_only(model, route)
        if not freeze:
            model.requires_grad_(True)
        return route_flop(model, route, batch)

    forward = cost("features", True)
    assert forward < cost("last layer", True) < cost("last layer", False)
    assert cost("last layer", False) == cost("all layers", True)
