"""What the ranks of test_join.py do: small trainings on uneven inputs, each beside a reference."""

import os
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.parallel import (
    Pipeline,
    PipelinePlan,
    RunningMean,
    average_gradients,
    record_join,
    stage_module,
)
from rankbook.training import (
    WAYS,
    lockstep,
    token_loss,
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
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, allreduce_hook)
    stepper = make(SGD, model.parameters())
    with Join([model], divide_by_initial_world_size=False):
        for batch in mine():
            step(model, stepper, *batch)
    found["comm hook: remaining"] = off(model.module, reference("join-remaining"))
    found["comm hook: all"] = off(model.module, reference("join"))
    return found


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


# Joinables ----------------------------------------------------------------------------------


class Counter(Joinable):
    """How many inputs there are on all ranks; what joined ranks missed is sent to them at last."""

    def __init__(self):
        super().__init__()
        self.count = torch.zeros(1)

    def __call__(self) -> None:
        Join.notify_join_context(self)
        one = torch.ones(1)
        dist.all_reduce(one)
        self.count += one

    def join_hook(self, **_) -> JoinHook:
        return _CounterHook(self)

    join_device = property(lambda self: torch.device("cpu"))
    join_process_group = property(lambda self: dist.group.WORLD)


class _CounterHook(JoinHook):
    def __init__(self, counter: Counter):
        self.counter = counter

    def main_hook(self) -> None:
        dist.all_reduce(torch.zeros(1))

    def post_hook(self, is_last_joiner: bool) -> None:
        rank = torch.tensor([dist.get_rank() if is_last_joiner else -1])
        dist.all_reduce(rank, op=dist.ReduceOp.MAX)
        dist.broadcast(self.counter.count, src=int(rank))


def joinables() -> dict:
    """The original's counter; a running mean, alone and as one of three; what was recorded."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    counter = Counter()
    with Join([counter]):
        for _ in range(5 + rank):
            counter()
        joined_at = counter.count.item()
    mean = RunningMean()
    with Join([mean]):
        for number in range(5 + rank):
            mean.update(torch.tensor(10.0 * rank + number), weight=rank + 1)
    values = [(10.0 * r + n, r + 1) for r in range(ranks) for n in range(5 + r)]
    expected = sum(v * w for v, w in values) / sum(w for _, w in values)
    model, three, counted = DistributedDataParallel(net()), RunningMean(), Counter()
    stepper = make(SGD, model.parameters())
    with record_join() as recording, Join([model, three, counted]):
        for inputs, targets in mine():
            three.update(step(model, stepper, inputs, targets), len(inputs))
            counted()
    timeline = recording.gather()
    return {
        "count": [joined_at, counter.count.item()],
        "mean": mean.mean - expected,
        "three": [
            three.mean,
            three.weight,
            counted.count.item(),
            off(model.module, reference("join")),
        ],
        "order": timeline.order(rank),
        "inside": timeline.order(rank, inside=True),
        "exhausted": [timeline.exhausted(r) for r in range(ranks)],
        "main_hooks": [timeline.count(r, "main_hook") for r in range(ranks)],
        "asked": [timeline.count(r, "ask") + timeline.count(r, "notify") for r in range(ranks)],
        "after": Join.__exit__.__qualname__ + DistributedDataParallel.forward.__qualname__,
    }


# where Join does not go, and lockstep does --------------------------------------------------


def refused() -> dict:
    """What Join says to a sharded model."""
    said = {}
    for name, wrap in (
        ("FSDP1", lambda: FullyShardedDataParallel(net(), device_id=torch.device("cpu"))),
        ("FSDP2", lambda: fully_shard(net())),
    ):
        try:
            Join([wrap()])
        except AttributeError as error:
            said[name] = str(error)
    return said


def follow(model, stepper, epochs: int = 1, accumulate: int = 1) -> None:
    """Train by `lockstep`."""
    for epoch in range(epochs):
        for (inputs, targets), scale, last in lockstep(mine(epoch), accumulate):
            with nullcontext() if last else model.no_sync():
                (loss(model(inputs), targets) * scale).backward()
            if last:
                stepper.step()
                stepper.zero_grad()


def windows(size: int) -> list[list]:
    """The batches of `size` steps of each rank as one batch: what accumulating should equal."""
    return [
        [
            tuple(torch.cat(parts) for parts in zip(*batches[i : i + size], strict=True))
            for i in range(0, len(batches), size)
        ]
        for batches in map(shard, range(dist.get_world_size()))
    ]


def cured() -> dict:
    """`lockstep` where Join does not go, or goes wrong: how far off."""
    right = reference("once")
    found = {}
    for name, wrap in (
        ("DDP", DistributedDataParallel),
        ("compiled DDP", lambda m: torch.compile(DistributedDataParallel(m), backend="eager")),
        ("FSDP2", fully_shard),
    ):
        model = wrap(net())
        follow(model, make(SGD, model.parameters()))
        found[name] = off(model, right)
    cpu = torch.device("cpu")
    model = FullyShardedDataParallel(net(), device_id=cpu, use_orig_params=True)
    follow(model, make(SGD, model.parameters()))
    with FullyShardedDataParallel.summon_full_params(model):
        found["FSDP1"] = off(model, right)
    model = DistributedDataParallel(net())
    follow(model, make(ADAM, model.parameters(), ZeroRedundancyOptimizer), epochs=2)
    found["ZeRO, two epochs"] = off(model, reference("once", ADAM, epochs=2))
    model = DistributedDataParallel(net())
    follow(model, make(MOMENTUM, model.parameters()), epochs=2)
    found["momentum, two epochs"] = off(model, reference("once", MOMENTUM, epochs=2))
    model = DistributedDataParallel(net())
    follow(model, make(SGD, model.parameters()), accumulate=2)
    found["accumulation"] = off(model, reference("once", of=windows(2)))
    if dist.get_world_size() == 4:
        found["pipelines"] = pipelines()
    return found


def pipelines() -> float:
    """Two pipelines of two ranks with 2 and 3 batches: the model beside one process."""
    config = TransformerConfig(30, d_model=16, d_hidden=16, heads=2, layers=2, max_length=6)
    plan = PipelinePlan("1f1b", 2, 2, replicas=2)
    mesh = plan.mesh("cpu")
    index = mesh["pp"].get_local_rank()
    module = stage_module(config, index, 2, torch.device("cpu"))
    pipeline = Pipeline(plan, {index: module}, mesh, token_loss, config)
    text = torch.randint(30, (5, 4, 7), generator=torch.Generator().manual_seed(0))
    shards = [[(t[:, :-1], t[:, 1:]) for t in part] for part in (text[:2], text[2:])]
    dp = mesh["dp"].get_group()
    stepper = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    for (tokens, targets), scale, _ in lockstep(shards[mesh["dp"].get_local_rank()], group=dp):
        stepper.zero_grad()
        pipeline.step(tokens, targets)
        for parameter in pipeline.parameters():
            parameter.grad *= scale
        average_gradients(pipeline.parameters(), dp)
        stepper.step()
    whole = TransformerLM(config)
    initialise(whole, 0)
    uneven_reference(whole, torch.optim.SGD(whole.parameters(), lr=0.1), shards, token_loss, "once")
    pairs = [(p, whole.get_parameter(name)) for name, p in pipeline.named_parameters()]
    return max((a - b).abs().max().item() for a, b in pairs)


def wrong_calls() -> list[str]:
    """What all ranks are told of calls that cannot be meant; they can go on afterwards."""
    rank, said = dist.get_rank(), []
    empty = shard(rank, 3 * rank)
    for call in (
        lambda: list(lockstep(empty)),
        lambda: list(lockstep(empty, accumulate=0)),
        lambda: train_uneven(net(), None, empty, loss, "pad"),
        lambda: train_uneven(net(), None, empty, loss, "joined"),
        lambda: weigh_inputs([1], "join"),
        lambda: RunningMean().mean,
    ):
        try:
            call()
        except ValueError as error:
            said.append(str(error))
    said.append(str(len(list(lockstep([])))))
    return said


def everything() -> dict:
    """All of the above, one after the other in the same processes."""
    works = (ways, ddp, nothing_on_rank_0, compiled, throw, even_without_join, batch_norm)
    works += (joinables, refused, cured, wrong_calls)
    return {work.__name__: work() for work in works}


# what hangs or dies -------------------------------------------------------------------------


def trouble(rank: int, case: str, folder: str, timeout: float) -> None:
    """One of two ranks that go wrong: what it says lands in files, it ends by itself or is killed.

    The one that is done stays, so that what the other waits for does not simply go away.
    """
    with Path(folder, f"{rank}.err").open("w") as log:
        os.dup2(log.fileno(), 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": 2}
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout), **where)
    try:
        TROUBLES[case]()
        said = "done"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    Path(folder, f"{rank}.said").write_text(said)
    time.sleep(3 * timeout)  # for the other one; then it is killed
    os._exit(0)


def _loop(body, wrap=nullcontext) -> None:
    model = DistributedDataParallel(net())
    stepper = make(SGD, model.parameters())
    with wrap(model):
        for number, batch in enumerate(mine()):
            body(model, stepper, number, batch)


def _plain(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)


def _fails(model, stepper, number, batch) -> None:
    if number == 5:
        raise ValueError("a sample that cannot be read")
    step(model, stepper, *batch)


def _validates(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)
    with torch.no_grad():
        model(batch[0])


def _validates_inside(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)
    with torch.no_grad():
        model.module(batch[0])


def _two_forwards(model, stepper, number, batch) -> None:
    (model(batch[0]).mean() + model(-batch[0]).mean()).backward()


def _flushes(model, stepper, number, batch) -> None:
    ends = number % 2 or number + 1 == len(mine())
    with nullcontext() if ends else model.no_sync():
        loss(model(batch[0]), batch[1]).backward()


class _Mixed(Counter):
    """Its post hook makes an int64 tensor on the last joiner, and a float32 one on the others."""

    def join_hook(self, **_) -> JoinHook:
        hook = _CounterHook(self)
        hook.post_hook = self.post_hook
        return hook

    def post_hook(self, is_last_joiner: bool) -> None:
        rank = torch.tensor([dist.get_rank()] if is_last_joiner else [-1.0])
        dist.all_reduce(rank, op=dist.ReduceOp.MAX)


def _mixed(more: int) -> None:
    counter = _Mixed()
    with Join([counter]):
        for _ in range(3 + more):
            counter()


def _order() -> None:
    counter = Counter()

    def body(model, stepper, number, batch):
        step(model, stepper, *batch)
        counter()

    _loop(body, lambda model: Join([counter, model]))


def _join(model) -> Join:
    return Join([model])


TROUBLES = {
    "without Join": lambda: _loop(_plain),
    "disabled": lambda: _loop(_plain, lambda model: Join([model], enable=False)),
    "an exception on one rank": lambda: _loop(_fails, _join),
    "validation": lambda: _loop(_validates, _join),
    "validation, the module itself": lambda: _loop(_validates_inside, _join),
    "two forwards": lambda: _loop(_two_forwards, _join),
    "accumulation": lambda: _loop(_flushes, _join),
    "another order": _order,
    "mixed dtypes": lambda: _mixed(dist.get_rank()),
    "mixed dtypes, even": lambda: _mixed(0),
}
