"""Joinables, alone and together, and what is recorded of them: for the ranks of test_join.py."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

from rankbook.parallel.joining import RunningMean, record_join
from tests.distributed.join_ranks import SGD, make, mine, net, off, reference, step


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
        return CounterHook(self)

    join_device = property(lambda self: torch.device("cpu"))
    join_process_group = property(lambda self: dist.group.WORLD)


class CounterHook(JoinHook):
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
