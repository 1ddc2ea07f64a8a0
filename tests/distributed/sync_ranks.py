"""What the ranks of test_sync.py do: replicas that meet now and then, and the same in one process.

In float64: what is equal but for rounding is equal to twelve digits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from rankbook.parallel.sync import (
    CompressedGradients,
    DiLoCo,
    ErrorFeedback,
    LocalSGD,
    TopK,
    cut_evenly,
    is_due,
    nesterov,
    plain,
)
from rankbook.parallel.sync.compressors import Compressor

STEPS, ROWS = 12, 4
Inner = Callable[[Any], Optimizer]
INNER: dict[str, Inner] = {
    "sgd": partial(SGD, lr=0.1),
    "momentum": partial(SGD, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adamw": partial(AdamW, lr=0.01),
}


def make_model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 2))
    return model.double()


def rows(step: int, replica: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What a replica trains on in a step: each has other rows."""
    g = torch.Generator().manual_seed(1000 * step + replica)
    return torch.randn(ROWS, 5, generator=g).double(), torch.randn(ROWS, 2, generator=g).double()


def backward(model: nn.Module, step: int, *replicas: int) -> None:
    """On the rows of those replicas, together."""
    model.zero_grad()
    of_each = zip(*(rows(step, r) for r in replicas), strict=True)
    inputs, targets = (torch.cat(part) for part in of_each)
    F.mse_loss(model(inputs), targets).backward()


def inner_step(model: nn.Module, optimizer: Optimizer, step: int, *replicas: int) -> None:
    backward(model, step, *replicas)
    optimizer.step()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def off(found: torch.Tensor, right: torch.Tensor) -> float:
    return ((found - right).norm() / right.norm()).item()


def data_parallel(inner: str, ranks: int) -> torch.Tensor:
    """The control: one process, all rows in every step."""
    model = make_model()
    optimizer = INNER[inner](model.parameters())
    for step in range(STEPS):
        inner_step(model, optimizer, step, *range(ranks))
    return flat(model)


def every_step(inner: str, kind: Callable) -> float:
    """How far replicas that meet after every step are from data parallelism in one process."""
    model, me = make_model(), dist.get_rank()
    optimizer = INNER[inner](model.parameters())
    sync = kind(model.parameters(), every=1)
    for step in range(STEPS):
        inner_step(model, optimizer, step, me)
        sync.step()
    return off(flat(model), data_parallel(inner, dist.get_world_size()))


def all_every_step() -> dict[str, dict[str, float]]:
    kinds = {"LocalSGD": LocalSGD, "DiLoCo": partial(DiLoCo, outer=plain)}
    return {
        name: {inner: every_step(inner, kind) for inner in INNER} for name, kind in kinds.items()
    }


class InTurn:
    """DiLoCo in one process: replicas take their steps one after the other.

    Written for itself: nothing of the package but when a fragment is due.
    """

    def __init__(self, every: int, outer=nesterov, fragments: int = 1, overlap=0, keep=0.0):
        self.every, self.fragments, self.overlap, self.keep = every, fragments, overlap, keep
        self.world = make_model()
        self.outer = outer(self.world.parameters())
        parts = cut_evenly(list(self.world.parameters()), fragments)
        order = {id(p): i for i, p in enumerate(self.world.parameters())}
        self.parts = [[order[id(p)] for p in part] for part in parts]
        self.replicas: dict[int, tuple[nn.Module, Optimizer]] = {}
        self.sent: dict[int, list] = {}  # of a fragment: (when it counts, outer gradients)

    def join(self, replica: int) -> None:
        """With the global parameters, and an optimizer that has seen nothing."""
        model = make_model()
        model.load_state_dict(self.world.state_dict())
        self.replicas[replica] = model, INNER["adamw"](model.parameters())

    def run(self, steps: range) -> torch.Tensor:
        """The parameters of the first replica after them."""
        for step in steps:
            for replica, (model, optimizer) in self.replicas.items():
                inner_step(model, optimizer, step, replica)
            self.meet(step + 1)
        return flat(next(iter(self.replicas.values()))[0])

    @torch.no_grad()
    def meet(self, done: int) -> None:
        models = [list(model.parameters()) for model, _ in self.replicas.values()]
        world = list(self.world.parameters())
        for f, part in enumerate(self.parts):
            if is_due(done, self.every, f, self.fragments):
                apart = {i: torch.stack([world[i] - own[i] for own in models]) for i in part}
                self.sent[f] = [done + self.overlap, apart]
        for f in [f for f, (when, _) in self.sent.items() if when == done]:
            _, apart = self.sent.pop(f)
            self.outer.zero_grad()
            for i, of_all in apart.items():
                world[i].grad = of_all.mean(0)
            self.outer.step()
            for own in models:
                for i in apart:
                    own[i].copy_(self.keep * own[i] + (1 - self.keep) * world[i])


def diloco(make: Callable[..., DiLoCo] = DiLoCo, every: int = 4, **settings: Any) -> float:
    """How far live replicas are from those in turn."""
    model, me = make_model(), dist.get_rank()
    optimizer = INNER["adamw"](model.parameters())
    sync = make(model.parameters(), every, **settings)
    settings.pop("staggered", None)
    control = InTurn(every, **settings)
    for replica in range(dist.get_world_size()):
        control.join(replica)
    for step in range(STEPS):
        inner_step(model, optimizer, step, me)
        sync.step()
    control.run(range(STEPS))
    return off(flat(model), flat(control.replicas[me][0]))


def as_in_turn() -> dict[str, float]:
    return {
        "DiLoCo": diloco(),
        "LocalSGD": diloco(DiLoCo, outer=plain),
        "fragments": diloco(fragments=3),
        "overlap": diloco(fragments=2, overlap=1, keep=0.4),
    }


def all_fragments_at_once() -> tuple[float, float]:
    """Fragments that meet at one step, and at different ones, beside the whole model."""
    model, at_once, staggered = (
        trained(every=4, **settings)
        for settings in ({}, {"fragments": 3, "staggered": False}, {"fragments": 3})
    )
    return off(at_once, model), off(staggered, model)


def trained(**settings: Any) -> torch.Tensor:
    model, me = make_model(), dist.get_rank()
    optimizer, sync = INNER["adamw"](model.parameters()), DiLoCo(model.parameters(), **settings)
    for step in range(STEPS):
        inner_step(model, optimizer, step, me)
        sync.step()
    return flat(model)


class Summed(DiLoCo):
    """Wrong: the sum in place of the mean."""

    def _finish(self, fragment, means):
        ranks = dist.get_world_size(self.exchange.group)
        super()._finish(fragment, [mean * ranks for mean in means])


class Forgetful(DiLoCo):
    """Wrong: the outer optimizer begins anew at each meeting."""

    def _finish(self, fragment, means):
        self.outer.state.clear()
        super()._finish(fragment, means)


class Stubborn(DiLoCo):
    """Wrong: the replica goes on from its own parameters."""

    def _finish(self, fragment, means):
        own = [p.detach().clone() for p in self.parameters]
        super()._finish(fragment, means)
        for p, was in zip(self.parameters, own, strict=True):
            p.detach().copy_(was)


class Backwards(DiLoCo):
    """Wrong: the outer step goes away from where the replicas went."""

    def _finish(self, fragment, means):
        super()._finish(fragment, [-mean for mean in means])


def sabotaged() -> dict[str, float]:
    return {make.__name__: diloco(make) for make in (Summed, Forgetful, Stubborn, Backwards)}


def compressed(compressor: Compressor, feedback: bool, control_feedback: bool) -> float:
    """Live replicas with compressed gradients, beside one process that does the same for all."""
    model, me, ranks = make_model(), dist.get_rank(), dist.get_world_size()
    optimizer = INNER["sgd"](model.parameters())
    gradients = CompressedGradients(model.parameters(), compressor, feedback)
    for step in range(STEPS):
        backward(model, step, me)
        gradients.average()
        optimizer.step()

    control, memory = make_model(), [ErrorFeedback(compressor) for _ in range(ranks)]
    optimizer = INNER["sgd"](control.parameters())
    for step in range(STEPS):
        total = torch.zeros_like(flat(control))
        for r in range(ranks):
            backward(control, step, r)
            vector = torch.cat([_gradient(p).flatten() for p in control.parameters()])
            memory[r].residual = memory[r].residual if control_feedback else {}
            total += compressor.unpack(memory[r].pack(0, vector), len(vector)) / ranks
        _set_gradients(list(control.parameters()), total)
        optimizer.step()
    return off(flat(model), flat(control))


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _set_gradients(parameters: Sequence[nn.Parameter], vector: torch.Tensor) -> None:
    lengths = [p.numel() for p in parameters]
    for parameter, part in zip(parameters, vector.split(lengths), strict=True):
        parameter.grad = part.view_as(parameter)


def compressed_ways() -> dict[str, float]:
    top = TopK(0.1)
    return {
        "with": compressed(top, True, True),
        "without": compressed(top, False, False),
        "lost": compressed(top, False, True),
    }


def comes_and_goes(newcomers_get: str = "all") -> tuple[bool, float]:
    """Rank 2 comes after two meetings. Whether it was new, and how far all are from in turn."""
    model, me = make_model(), dist.get_rank()
    early, everybody = dist.new_group([0, 1]), dist.new_group([0, 1, 2])
    optimizer = INNER["adamw"](model.parameters())
    control = InTurn(3)
    sync, new = DiLoCo(model.parameters(), 3, group=everybody), False
    if me < 2:
        sync.regroup(early)
    else:
        nn.init.constant_(model[0].weight, 7.0)  # what it does meanwhile counts nothing
    for step in range(STEPS):
        if step == 6:
            new = join(sync, everybody, newcomers_get)
        if me < 2 or step >= 6:
            inner_step(model, optimizer, step, me)
            sync.step()
    for replica in (0, 1):
        control.join(replica)
    control.run(range(6))
    control.join(2)
    control.run(range(6, STEPS))
    return new, off(flat(model), flat(control.replicas[me][0]))


def join(sync: DiLoCo, group, newcomers_get: str) -> bool:
    """As it should be; or wrong, without the outer optimizer's momentum."""
    new = sync.regroup(group)
    if new and newcomers_get == "parameters":
        sync.outer.state.clear()
    return new


def comes_without_momentum() -> tuple[bool, float]:
    return comes_and_goes("parameters")


def counts_nothing() -> float:
    """A replica of weight 0, full of numbers that are none, leaves the others' mean as it is."""
    model, me = make_model(), dist.get_rank()
    optimizer = INNER["adamw"](model.parameters())
    sync, control = DiLoCo(model.parameters(), 3), InTurn(3)
    for replica in range(dist.get_world_size() - 1):
        control.join(replica)
    absent = me == dist.get_world_size() - 1
    sync.weight = float(not absent)
    for step in range(STEPS):
        if absent:
            nn.init.constant_(model[0].bias, torch.nan)
        else:
            inner_step(model, optimizer, step, me)
        sync.step()
    control.run(range(STEPS))
    return off(flat(model), flat(control.world))
