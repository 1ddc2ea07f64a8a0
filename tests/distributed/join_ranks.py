"""What the ranks of test_join.py do: small trainings on uneven inputs, each beside a reference."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from rankbook.training import (
    WAYS,
    train_uneven,
    uneven_reference,
    weigh_inputs,
)

loss = nn.functional.mse_loss
SGD = {"cls": torch.optim.SGD, "lr": 0.2}
MOMENTUM = {"cls": torch.optim.SGD, "lr": 0.1, "momentum": 0.9}
ADAM = {"cls": torch.optim.AdamW, "lr": 0.05}


def net() -> nn.Module:
    """Always the same parameters, float64: a difference is none of rounding."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def counts() -> list[int]:
    """How many batches each rank has: 5, 6, 7, ..."""
    return [5 + rank for rank in range(dist.get_world_size())]


def shard(rank: int, count: int | None = None, epoch: int = 0) -> list:
    """The batches of a rank; the last one is smaller."""
    generator = torch.Generator().manual_seed(100 * epoch + rank)
    count = counts()[rank] if count is None else count
    sizes = [3] * (count - 1) + [2] * (count > 0)
    return [
        tuple(torch.randn(size, n, generator=generator, dtype=torch.float64) for n in (4, 1))
        for size in sizes
    ]


def mine(epoch: int = 0) -> list:
    return shard(dist.get_rank(), epoch=epoch)


def make(optimizer: dict, parameters, wrap=None):
    cls, options = optimizer["cls"], {k: v for k, v in optimizer.items() if k != "cls"}
    return wrap(parameters, cls, **options) if wrap else cls(parameters, **options)


def step(model, optimizer, inputs, targets) -> torch.Tensor:
    optimizer.zero_grad()
    value = loss(model(inputs), targets)
    value.backward()
    optimizer.step()
    return value


def reference(how: str, optimizer: dict = SGD, epochs: int = 1, of=None) -> nn.Module:
    """One process, on the batches of all ranks."""
    model = net()
    stepper = make(optimizer, model.parameters())
    for epoch in range(epochs):
        shards = of or [shard(rank, epoch=epoch) for rank in range(dist.get_world_size())]
        uneven_reference(model, stepper, shards, loss, how)
    return model


def off(model, right: nn.Module) -> float:
    """The largest difference of a parameter, over all ranks."""
    parameters = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    most = max(
        (a - b).abs().max() for a, b in zip(parameters, right.parameters(), strict=True)
    ).detach()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


# what is right ------------------------------------------------------------------------------


def ways() -> dict:
    """Each way beside its reference, and how much each input counted."""
    found = {}
    for how in WAYS:
        model = net()
        passed = train_uneven(model, make(MOMENTUM, model.parameters()), mine(), loss, how)
        found[how] = {
            "off": off(model, reference(how, MOMENTUM)),
            "bias": off(model, reference("once", MOMENTUM)),
            "took": passed.took,
            "seconds": passed.seconds,
            "weights": [each.tolist() for each in weigh_inputs(counts(), how)],
        }
    return found


def in_join(options: dict, how: str = "join", optimizer: dict = SGD, epochs=1, zero=False) -> float:
    """DDP with `options` in Join, with a sharded optimizer if asked for: how far off it is."""
    model = DistributedDataParallel(net(), **options)
    stepper = make(optimizer, model.parameters(), ZeroRedundancyOptimizer if zero else None)
    for epoch in range(epochs):
        joinables = [model, stepper] if zero else [model]
        with Join(joinables, divide_by_initial_world_size=how == "join"):
            for batch in mine(epoch):
                step(model, stepper, *batch)
    return off(model.module, reference(how, optimizer, epochs))


def ddp() -> dict:
    """DDP in Join, with options; then what is silently wrong."""
    options = ("static_graph", "find_unused_parameters", "gradient_as_bucket_view")
    found = {name: in_join({name: True}) for name in options}
    for name, kind in (("sgd", SGD), ("momentum", MOMENTUM), ("adam", ADAM)):
        found[f"zero {name}"] = in_join({}, optimizer=kind, zero=True)
        found[f"{name} twice"] = in_join({}, optimizer=kind, epochs=2)
    found["zero remaining"] = in_join({}, "join-remaining", zero=True)
    found["zero counts"] = zero_counts()
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, allreduce_hook)
    stepper = make(SGD, model.parameters())
    with Join([model], divide_by_initial_world_size=False):
        for batch in mine():
            step(model, stepper, *batch)
    found["comm hook: remaining"] = off(model.module, reference("join-remaining"))
    found["comm hook: all"] = off(model.module, reference("join"))
    return found


def zero_counts() -> list[float]:
    """How often each input moved the weight, which rank 0 owns: DDP and ZeRO in Join."""
    inputs = torch.eye(sum(counts()))
    own = inputs.split(counts())[dist.get_rank()]
    linear = nn.Linear(len(inputs), 1)
    nn.init.zeros_(linear.weight)
    model = DistributedDataParallel(linear)
    lr = dist.get_world_size()  # DDP's mean divides by it
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=lr)
    with Join([model, zero]):
        for each in own:
            zero.zero_grad()
            (-model(each)).sum().backward()
            zero.step()
    return linear.weight[0].tolist()


def drift() -> list[float]:
    """How far parameters differ between ranks: before, and after the first step of epoch 2."""
    model = DistributedDataParallel(net())
    stepper, found = make(MOMENTUM, model.parameters()), []
    with Join([model]):
        for batch in mine():
            step(model, stepper, *batch)
    found.append(_spread(model))
    with Join([model]):
        for number, batch in enumerate(mine(epoch=1)):
            step(model, stepper, *batch)
            if number == 0:  # no rank has joined, so a collective of our own is none too many
                found.append(_spread(model))
    return found


def _spread(model: nn.Module) -> float:
    highest = torch.cat([p.detach().flatten() for p in model.parameters()])
    lowest = -highest
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MAX)
    return (highest + lowest).max().item()


def nothing_on_rank_0() -> float:
    """Rank 0 has no input at all."""
    shards = [shard(rank, 3 * rank) for rank in range(dist.get_world_size())]
    model = net()
    train_uneven(model, make(SGD, model.parameters()), shards[dist.get_rank()], loss, "join")
    return off(model, reference("join", of=shards))


def compiled() -> list[float]:
    """A compiled DDP is handed to Join as it is, or what is inside of it."""
    found = []
    for inner in (False, True):
        model = torch.compile(DistributedDataParallel(net()), backend="eager")
        stepper = make(SGD, model.parameters())
        with Join([model._orig_mod if inner else model]):
            for batch in mine():
                step(model, stepper, *batch)
        found.append(off(model._orig_mod.module, reference("join")))
    return found


def throw() -> tuple[int, str]:
    """How many steps were made until the exception, and what it says."""
    model = DistributedDataParallel(net())
    stepper, done = make(SGD, model.parameters()), 0
    try:
        with Join([model], throw_on_early_termination=True):
            for batch in mine():
                step(model, stepper, *batch)
                done += 1
    except RuntimeError as error:
        return done, str(error)
    return done, ""


def even_without_join() -> float:
    """enable=False, where the numbers of inputs are the same."""
    shards = [shard(rank, 4) for rank in range(dist.get_world_size())]
    model = DistributedDataParallel(net())
    stepper = make(SGD, model.parameters())
    with Join([model], enable=False):
        for batch in shards[dist.get_rank()]:
            step(model, stepper, *batch)
    return off(model.module, reference("join", of=shards))


def batch_norm() -> dict:
    """The statistics left after Join, and those of the last rank's batches alone."""
    model = _with_norm()
    ddp = DistributedDataParallel(model)
    stepper = make(SGD, model.parameters())
    with Join([ddp]):
        for batch in mine():
            step(ddp, stepper, *batch)
    control = _with_norm()
    stepper = make(SGD, control.parameters())
    ranks = dist.get_world_size()
    for number in range(max(counts())):
        stepper.zero_grad()
        for rank in range(ranks):
            control[1].momentum = 0.1 * (rank == ranks - 1)  # of the others, it takes nothing
            for inputs, targets in shard(rank)[number : number + 1]:
                (loss(control(inputs), targets) / ranks).backward()
        stepper.step()
    means = [each[1].running_mean for each in (model, control)]
    seen = model[1].num_batches_tracked.item()
    return {"seen": seen, "off": (means[0] - means[1]).abs().max().item()}


def _with_norm() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).double()
