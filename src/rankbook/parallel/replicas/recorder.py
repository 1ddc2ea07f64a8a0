"""A recorder of DDP's backward passes: when each gradient is ready, when each bucket is summed.

DDP puts gradients into *buckets* and starts one all_reduce for each as soon as its last gradient
is there, while autograd goes on (S. Li et al., "PyTorch Distributed: Experiences on Accelerating
Data Parallel Training", VLDB 2020, arXiv:2006.15704). Both sides are noted here: gradients by a
hook of each parameter, buckets by a communication hook that does what DDP itself would do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rankbook.core import clocks
from rankbook.core.agreement import gather


class ReadyGradient(NamedTuple):
    """The gradient of the parameter `name`, of `nbytes`, was there at `time`, in seconds."""

    name: str
    nbytes: int
    time: float


class Bucket(NamedTuple):
    """One all_reduce: of `nbytes`, for the parameters `names`; from `start` to `end`, in seconds.

    `end` is when its result was there, whether or not anybody was waiting for it.
    """

    index: int
    names: list[str]
    nbytes: int
    start: float
    end: float


class BackwardPass(NamedTuple):
    """One backward pass of one rank, from `start` to `end`, in seconds.

    gradients: in the order in which they were ready. buckets: in the order of their all_reduce.
    """

    rank: int
    start: float
    end: float
    gradients: list[ReadyGradient]
    buckets: list[Bucket]

    @property
    def span(self) -> float:
        """Seconds from the call of backward to its return."""
        return self.end - self.start

    @property
    def computed(self) -> float:
        """When the last gradient was ready: from here on there is only communication."""
        return max(ready.time for ready in self.gradients)

    @property
    def communication(self) -> float:
        """Seconds in which at least one bucket was on its way."""
        return self._on_its_way(self.end)

    @property
    def hidden(self) -> float:
        """Seconds of the communication that passed while gradients were still being computed."""
        return self._on_its_way(self.computed)

    def _on_its_way(self, until: float) -> float:
        total, done = 0.0, self.start
        for bucket in sorted(self.buckets, key=lambda bucket: bucket.start):
            start, end = max(bucket.start, done), min(bucket.end, until)
            total += max(0.0, end - start)
            done = max(done, end)
        return total


class OverlapRecorder:
    """Notes the backward passes of a DDP model, from now on; results do not change.

    ::

        ddp = DistributedDataParallel(model)
        recorder = OverlapRecorder(ddp)
        loss = loss_fn(ddp(x), y)
        with recorder.backward():
            loss.backward()
        first, *others = recorder.gather()  # one BackwardPass a rank

    A DDP model takes one communication hook in its life, and this one stays: raises RuntimeError
    if it has one already. Raises TypeError if `ddp` is not a DistributedDataParallel.
    """

    def __init__(self, ddp: DistributedDataParallel):
        if not isinstance(ddp, DistributedDataParallel):
            raise TypeError(
                f"OverlapRecorder records DistributedDataParallel, not {type(ddp).__name__}; "
                "wrap the model first"
            )
        self._group = ddp.process_group
        self._clock = clocks.event_clock()
        self._passes = []  # (start, end, gradients, buckets), with stamps for times
        self._names = {}
        self._open = None
        ddp.register_comm_hook(None, self._reduce)
        for name, parameter in ddp.module.named_parameters():
            if parameter.requires_grad:
                self._names[parameter] = name
                parameter.register_post_accumulate_grad_hook(self._note)

    @property
    def passes(self) -> int:
        """How many backward passes were recorded."""
        return len(self._passes)

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Record the backward pass that is made in the ``with`` block."""
        gradients, buckets = self._open = [], []
        start = self._clock.stamp()
        try:
            yield
        finally:
            self._open = None
        self._passes.append((start, self._clock.stamp(), gradients, buckets))

    def recorded(self, index: int = -1) -> BackwardPass:
        """This rank's pass number `index`, from 0 or from the end, by its own clock.

        Raises ValueError if there was no such pass.
        """
        if not -self.passes <= index < self.passes:
            raise ValueError(
                f"backward pass {index} was not recorded, only {self.passes} were; "
                "call loss.backward() inside of `with recorder.backward()`"
            )
        self._clock.finish()
        at = self._clock.seconds
        start, end, gradients, buckets = self._passes[index]
        return BackwardPass(
            dist.get_rank(self._group),
            at(start),
            at(end),
            [ReadyGradient(name, nbytes, at(time)) for name, nbytes, time in gradients],
            [
                Bucket(number, names, nbytes, at(begun), at(done))
                for number, names, nbytes, begun, done in buckets
            ],
        )

    def gather(self, index: int = -1) -> list[BackwardPass]:
        """The pass number `index` of every rank; all ranks must call, all get the same.

        Between machines, clocks are set against each other. Raises ValueError if there was no
        such pass.
        """
        mine = self.recorded(index)
        offsets, _ = clocks.clock_offsets(self._group)
        return gather(_shifted(mine, -offsets[mine.rank]), self._group)

    def _note(self, parameter: torch.nn.Parameter) -> None:
        if self._open is not None:
            gradients, _ = self._open
            assert parameter.grad is not None, "its hook runs after its gradient is there"
            size = parameter.grad.nbytes
            gradients.append((self._names[parameter], size, self._clock.stamp()))

    def _reduce(self, state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What DDP calls for each full bucket: begin to average it over the ranks."""
        note = None
        if self._open is not None:
            names = [self._names[parameter] for parameter in bucket.parameters()]
            note = [bucket.index(), names, bucket.buffer().nbytes, self._clock.stamp()]
            self._open[1].append(note)
        average = bucket.buffer().div_(dist.get_world_size(self._group))
        work = dist.all_reduce(average, group=self._group, async_op=True)

        def done(future: torch.futures.Future) -> torch.Tensor:
            if note is not None:
                note.append(self._clock.stamp())
            return future.value()[0]

        return work.get_future().then(done)


def _shifted(mine: BackwardPass, seconds: float) -> BackwardPass:
    return mine._replace(
        start=mine.start + seconds,
        end=mine.end + seconds,
        gradients=[each._replace(time=each.time + seconds) for each in mine.gradients],
        buckets=[
            each._replace(start=each.start + seconds, end=each.end + seconds)
            for each in mine.buckets
        ],
    )
