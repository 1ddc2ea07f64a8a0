"""Model and optimizer move together; a Trainer's are back on the device when it has ended."""

import sys

import pytest
import torch

from rankbook.speed import lightning_runner
from rankbook.speed.epochs import answers
from rankbook.speed.loop import Training, loader_of
from rankbook.speed.moving import move
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.runners import RUNNERS
from rankbook.speed.sizes import size

TINY = size(
    "cpu", vocab_size=60, d_model=8, d_hidden=16, layers=1, heads=1, max_length=20, batch=4,
    samples=8, validation=4, test=4,
)  # fmt: skip


@pytest.fixture
def training():
    made = Training(recipe("sdpa", "cpu").replace(workers=0, runner="lightning"), TINY)
    next_batch = next(iter(loader_of(made.recipe, TINY, synthetic(8, TINY))))
    made.step(next_batch)
    return made


def test_moments_go_with_their_parameters_and_the_step_stays(training):
    parameters = list(training.model.parameters())
    move(training.model, training.optimizer, "meta")
    assert {p.device.type for p in training.model.parameters()} == {"meta"}
    states = training.optimizer.state.values()
    assert {state["exp_avg"].device.type for state in states} == {"meta"}
    assert {state["step"].device.type for state in states} == {"cpu"}
    assert len(states) == len(parameters)


@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning"])
def test_after_a_fit_everything_is_on_the_device_again(package, training, monkeypatch):
    pytest.importorskip(package)
    if package == "pytorch_lightning":
        monkeypatch.setitem(sys.modules, "lightning", None)
    moved = []

    def noted(model, optimizer, device):
        moved.append((model, optimizer, device))
        move(model, optimizer, device)

    monkeypatch.setattr(lightning_runner, "move", noted)
    assert lightning_runner.import_lightning().__name__ == package
    reviews = synthetic(8, TINY)
    RUNNERS["lightning"](training, loader_of(training.recipe, TINY, reviews))
    ((model, _, device),) = moved
    assert model is training.model and device == torch.device("cpu")
    assert answers(training, reviews).shape == (8,)


def test_without_lightning_it_is_a_sentence(monkeypatch):
    for package in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match="Lightning is not installed; pip install lightning"):
        lightning_runner.import_lightning()
