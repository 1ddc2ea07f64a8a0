"""One step of a live rank, watched: the bytes of each part, moment by moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rankbook.predict.memory.hiding import unseen
from rankbook.predict.memory.ledger import REST, Ledger
from rankbook.predict.memory.live import LiveStep
from rankbook.predict.memory.resident import PeakMemory
from rankbook.predict.memory.tape import HOST, KINDS, Tape


def record_step(step: LiveStep, tokens: Tensor, targets: Tensor, resident: bool = False) -> Tape:
    """Take a step to warm up, and watch the next one; on all ranks, on `step`'s device.

    tokens, targets: the whole batch, as for `step`. The first step is another one: Adam has no
    state yet, a pipeline learns shapes. On a CPU each operation of torch is followed by a `Ledger`;
    on a GPU the allocator tells. resident: take one more step on a CPU, in which the kernel
    measures by how much the process grows.
    """
    if step.device.type == "cuda":
        from rankbook.predict.memory.allocator import record_on_gpu

        return record_on_gpu(step, tokens, targets)
    with unseen(), _Watching(step) as ledger:
        step(tokens, targets)
        ledger.tag_held(step.held())
        ledger.begins = {"forward": ledger.clock}
        loss = step(tokens, targets)
        ledger.tag_held(step.held())
    grown = None
    if resident:
        with PeakMemory("cpu") as memory:
            step(tokens, targets)
        grown = memory.grown
    start = ledger.begins["forward"]
    lines = ledger.timeline(start)
    moments = [{part: line[part] for part in (*KINDS, HOST)} for line in lines]
    begins = {phase: when - start for phase, when in ledger.begins.items()}
    return Tape(moments, begins, loss.item(), grown, list(_entries(ledger, start)))


def _entries(ledger: Ledger, start: int) -> Iterator[tuple[int, int, int, str]]:
    """The lives of storages within the step; one that changes its size has several."""
    last = ledger.clock - start
    for entry in ledger.entries:
        ends = [when for when, _ in entry.sizes[1:]] + [ledger.clock + 1]
        for (birth, size), death in zip(entry.sizes, ends, strict=True):
            if size and death > start:
                yield max(0, birth - start), min(last + 1, death - start), size, entry.part


class _Watching(Ledger):
    """A ledger that knows when phases begin, and what is born for the loss or on the host."""

    def __init__(self, step: LiveStep):
        super().__init__()
        self.step, self.begins = step, {}
        self._undo: list[Callable] = []

    def __enter__(self):
        step, part = self.step, self.step.part
        marking, update, loss_fn = step.marking, step.update, part.pipeline.loss_fn

        def noted_update() -> None:
            self.tag_held(step.held())  # the gradients are all there now
            self.begins["update"] = self.clock
            update()

        step.marking, step.update = self.born_as, noted_update
        part.pipeline.loss_fn = self._loss(loss_fn)
        part.pipeline.forget_schedules()  # they hold on to the loss

        def undo() -> None:
            step.marking, part.pipeline.loss_fn = marking, loss_fn
            del step.update
            part.pipeline.forget_schedules()

        self._undo.append(undo)
        return super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        super().__exit__(exc_type, exc_val, exc_tb)
        self._undo.pop()()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(func, types, args, kwargs)
        backward = torch._C._current_graph_task_id() >= 0
        if backward and "forward" in self.begins and "backward" not in self.begins:
            self.begins["backward"] = self.clock - 1
        return result

    @contextmanager
    def born_as(self, part: str) -> Iterator[None]:
        """Storages that are born within are of `part`."""
        before, self.rest = self.rest, part
        try:
            yield
        finally:
            self.rest = before

    def _loss(self, loss_fn: Callable) -> Callable:
        """`loss_fn`, whose tensors are logits, and its backward pass's as well."""

        def watched(logits: Tensor, targets: Tensor) -> Tensor:
            for entry in self.of(logits):
                entry.part = "logits"
            with self.born_as("logits"):
                loss = loss_fn(logits, targets)
            if logits.requires_grad:
                loss.register_hook(lambda _: self._rest("logits"))
                logits.register_hook(self._back)
            return loss

        return watched

    def _rest(self, part: str) -> None:
        self.rest = part

    def _back(self, gradient: Any) -> None:
        for entry in self.of(gradient):
            entry.part = "logits"
        self.rest = REST
