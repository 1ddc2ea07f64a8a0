"""A run that is put back goes on as if nothing had happened: in one process."""

import random
from copy import deepcopy
from dataclasses import replace

import numpy
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rankbook.training.checkpoint import Checkpoints, Saved, ShardedCheckpoints, capture, restore
from rankbook.training.checkpoint.random_state import random_state
from tests.unit.training.checkpoint.saving_faults import same

STEPS = 4


class Run:
    """A model with dropout, an optimizer, and more that has a state."""

    def __init__(self, kind: str = "AdamW", width: int = 8):
        torch.manual_seed(1)
        self.model = nn.Sequential(
            nn.Linear(4, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.Linear(width, 1)
        )
        options = {"momentum": 0.9, "dampening": 0.1} if kind == "SGD" else {}
        self.optimizer = getattr(torch.optim, kind)(self.model.parameters(), lr=0.1, **options)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        self.parts = (self.model, self.optimizer, self.scheduler, self.scaler)

    def train(self, steps: range) -> list[float]:
        losses = []
        for _ in steps:
            self.optimizer.zero_grad()
            scale = random.random() + numpy.random.rand()  # all generators count
            loss = (scale * self.model(torch.randn(8, 4))).pow(2).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def capture(self, step: int) -> dict:
        model, optimizer, *rest = self.parts
        return capture(model, optimizer, {"step": step}, *rest)

    def everything(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]


@pytest.mark.parametrize("kind", ["AdamW", "SGD", "Adagrad"])
@pytest.mark.parametrize("folder", [Checkpoints, ShardedCheckpoints])
def test_a_run_that_ended_at_any_step_goes_on_to_the_bit(tmp_path, folder, kind):
    checkpoints, whole = folder(tmp_path, keep=STEPS + 1), Run(kind)
    losses = []
    for step in range(STEPS + 1):
        checkpoints.save(step, whole.capture(step))
        losses += whole.train(range(step, min(step + 1, STEPS)))
    checkpoints.wait()
    for path in checkpoints.paths():  # from the newest to that of the very start
        resumed = Run(kind)
        resumed.train(range(3))  # what it held and drew before does not count
        saved = checkpoints.newest()
        assert saved.path == path
        position = saved.load_into(*resumed.parts)
        assert position == {"step": saved.step}
        assert resumed.train(range(saved.step, STEPS)) == losses[saved.step :]
        assert same(resumed.everything(), whole.everything())
        path.rename(tmp_path / f"seen-{saved.step}")
    assert saved.step == 0


@pytest.mark.parametrize("folder", [Checkpoints, ShardedCheckpoints])
def test_the_model_alone_touches_nothing_else(tmp_path, folder):
    checkpoints, run = folder(tmp_path), Run()
    run.train(range(2))
    checkpoints.save(2, run.capture(2))
    checkpoints.wait()
    other = Run()
    other.train(range(1))
    drawn = random_state()
    rest = deepcopy(other.everything()[1:])
    assert checkpoints.newest().load_into(other.model) == {"step": 2}
    assert same(other.model.state_dict(), run.model.state_dict())
    assert same(other.everything()[1:], rest) and same(random_state(), drawn)


def test_each_generator_counts():
    run = Run()
    state = deepcopy(run.capture(0))  # what is captured lives on
    expected = run.train(range(2))
    own, other = state["rng"][0], random_state()  # where the generators are by now
    for name in ("torch", "python", "numpy"):
        again = Run()
        restore(state | {"rng": [own | {name: other[name]}]}, *again.parts)
        assert again.train(range(2)) != expected, name
    restore(state, *(again := Run()).parts)
    assert again.train(range(2)) == expected


def test_in_another_world_random_numbers_come_from_the_position():
    run = Run()
    state = run.capture(5)
    state["rng"] *= 2  # of two ranks
    drawn = []
    for position in ({"step": 5}, {"step": 5}, {"step": 6}):
        random.seed()
        numpy.random.seed()
        torch.seed()
        restore(state | {"position": position}, *run.parts)
        drawn.append((torch.rand(2).tolist(), random.random(), numpy.random.rand()))
    assert drawn[0] == drawn[1]
    assert all(one != other for one, other in zip(drawn[0], drawn[2], strict=True))


@pytest.mark.slow
def test_wrappings_do_not_change_what_is_kept(alone):
    run = Run()
    plain = deepcopy(run.capture(0))
    expected = run.train(range(2))
    for wrapped in (
        torch.compile(run.model),
        DistributedDataParallel(run.model),
        torch.compile(DistributedDataParallel(run.model)),
    ):
        run.parts = (wrapped, *run.parts[1:])
        restore(plain, *run.parts)
        assert same(run.capture(0), plain)
        assert run.train(range(2)) == expected


def refused(saved: Saved, *parts) -> str:
    """The sentence with which the parts refuse what was saved, and stay what they were."""
    before = [repr(part.state_dict()) for part in parts if part]
    torch.manual_seed(7)
    with pytest.raises(ValueError) as error:
        saved.load_into(*parts)
    assert [repr(part.state_dict()) for part in parts if part] == before
    assert torch.initial_seed() == 7
    return str(error.value)


@pytest.mark.parametrize("folder", [Checkpoints, ShardedCheckpoints])
def test_what_is_of_another_run_is_one_sentence(tmp_path, folder):
    checkpoints, run = folder(tmp_path), Run()
    run.train(range(1))
    checkpoints.save(1, run.capture(1))
    checkpoints.wait()
    saved = checkpoints.newest()
    model, optimizer, scheduler, scaler = Run().parts
    other = "the checkpoint is of another model: "
    cure = "; use the same model, or another folder"

    told = refused(saved, *Run(width=9).parts)
    assert told == f"{other}its 0.weight is (8, 4), here it is (9, 4){cure}"
    told = refused(saved, model[:3], optimizer, scheduler, scaler)
    assert told == f"{other}3.bias is not in this one{cure}"
    told = refused(saved, nn.Sequential(*model, nn.Linear(1, 1)), optimizer, scheduler, scaler)
    assert told == f"{other}4.bias is not in it{cure}"
    told = refused(saved, *Run("SGD").parts)
    assert told == (
        "the checkpoint was saved with AdamW optimizer, and this run has SGD; use the same, or "
        "another folder"
    )
    assert "with StepLR scheduler, and this run has none" in refused(saved, model, optimizer)
    fewer = torch.optim.AdamW(model[:1].parameters())
    assert refused(saved, model, fewer, scheduler, scaler) == (
        f"the checkpoint's optimizer has groups of [6] parameters, and this run's of [2]{cure}"
    )
    without = replace(saved, state={"model": saved.state["model"]})
    told = refused(without, *Run().parts)
    assert told == "the checkpoint has no kinds; it is not one of a training run"


def test_without_checkpoints_there_is_nothing_to_go_on_from(tmp_path):
    assert Checkpoints(tmp_path / "none").newest() is None
