"""A step on a GPU as torch's allocator tells it: what came and went, and whose it was.

Source: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html; the history has an entry for
each snapshot that is taken, and by these the step marks where its phases begin.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankbook.predict.memory.ledger import REST
from rankbook.predict.memory.live import LiveStep
from rankbook.predict.memory.tape import HOST, KINDS, Tape

ENTRIES = 1_000_000  # of the history, at most
FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
LOSS, LOSS_MADE, LOSS_BACK, LOGITS_BACK = "loss", "loss made", "loss back", "logits back"


class Replayed(NamedTuple):
    """What a history says: `Tape`'s fields of the same names."""

    moments: list[dict[str, int]]
    begins: dict[str, int]
    entries: list[tuple[int, int, int, str]]


def record_on_gpu(step: LiveStep, tokens: Tensor, targets: Tensor) -> Tape:
    """As `record_step`, of a step on a GPU; `resident` is `max_memory_allocated`'s peak.

    Parts: parameters, the optimizer's state and gradients by their addresses, logits by when they
    came; what FSDP2 gathers and sends is with the activations here.
    """
    device = step.device
    step(tokens, targets)
    torch.cuda.synchronize(device)
    here = torch.cuda.current_device() if device.index is None else device.index
    before = live_blocks(torch.cuda.memory._snapshot()["segments"], here)
    stay = _parts(step.held())
    torch.cuda.reset_peak_memory_stats(device)
    labels: list[str] = []
    gradients: set[int] = set()

    def note(label: str) -> None:
        if label == UPDATE:
            gradients.update(step.held()["gradients"])
        labels.append(label)
        torch.cuda.memory._snapshot()

    torch.cuda.memory._record_memory_history("all", context=None, max_entries=ENTRIES)
    try:
        with _noting(step, note):
            note(FORWARD)
            loss = step(tokens, targets)
        torch.cuda.synchronize(device)
        trace = torch.cuda.memory._snapshot()["device_traces"][here]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    live = {at: (size, stay.get(at, REST)) for at, size in before.items()}
    found = replay(live, trace, labels, gradients)
    peak = torch.cuda.max_memory_allocated(device)
    return Tape(found.moments, found.begins, loss.item(), peak, found.entries)


def live_blocks(segments: Iterable[Mapping[str, Any]], device: int) -> dict[int, int]:
    """Address and bytes of what the allocator has given out on `device`."""
    return {
        block["address"]: block["size"]
        for segment in segments
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"].startswith("active")
    }


def replay(
    live: dict[int, tuple[int, str]],
    trace: Iterable[Mapping[str, Any]],
    labels: Iterable[str],
    gradients: set[int],
) -> Replayed:
    """Play a history through. live: {address: (bytes, part)} before it.

    trace: the allocator's entries; each "snapshot" among them is the next one of `labels`.
    gradients: addresses of what are gradients when the update begins.
    """
    names, clock, part = iter(labels), 0, REST
    begins: dict[str, int] = {}
    born: dict[int, list] = {at: [0, None, size, of] for at, (size, of) in live.items()}
    lives = list(born.values())
    for event in trace:
        action = event["action"]
        if action == "snapshot":
            label = next(names, "")
            part = "logits" if label in (LOSS, LOSS_BACK) else REST
            if label in (FORWARD, BACKWARD, UPDATE):
                begins.setdefault(label, clock)
            if label == UPDATE:
                for at in gradients & born.keys():
                    born[at][3] = "gradients"
        elif action == "alloc":
            clock += 1
            born[event["addr"]] = [clock, None, event["size"], part]
            lives.append(born[event["addr"]])
        elif action == "free_requested" and event["addr"] in born:
            clock += 1
            born.pop(event["addr"])[1] = clock
    entries = [(birth, death or clock + 1, size, of) for birth, death, size, of in lives]
    return Replayed(_moments(entries, clock), begins, entries)


def _moments(entries: list[tuple[int, int, int, str]], last: int) -> list[dict[str, int]]:
    """Bytes by part at each moment of these lives."""
    changes: list[list[tuple[str, int]]] = [[] for _ in range(last + 2)]
    for birth, death, size, part in entries:
        changes[birth].append((part, size))
        changes[death].append((part, -size))
    now, moments = dict.fromkeys((*KINDS, HOST), 0), []
    for each in changes[: last + 1]:
        for part, change in each:
            now[part] += change
        moments.append(dict(now))
    return moments


def _parts(held: dict[str, dict[int, int]]) -> dict[int, str]:
    return {at: part for part, found in held.items() for at in found if part != HOST}


@contextmanager
def _noting(step: LiveStep, note: Callable[[str], None]) -> Iterator[None]:
    """Within it, `step` notes where its phases, and the loss's two halves, begin."""
    part, loss_fn, update = step.part, step.part.pipeline.loss_fn, step.update

    def back(_: Tensor) -> None:
        note(BACKWARD)
        note(LOSS_BACK)

    def watched(logits: Tensor, targets: Tensor) -> Tensor:
        note(LOSS)
        loss = loss_fn(logits, targets)
        note(LOSS_MADE)
        if logits.requires_grad:
            loss.register_hook(back)
            logits.register_hook(lambda _: note(LOGITS_BACK))
        return loss

    def noted_update() -> None:
        note(UPDATE)
        update()

    def behind(_: Any, inputs: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _: note(BACKWARD))

    stages = [module for module in part.modules.values() if module.head is None]  # without a loss
    hooks = [module.register_forward_hook(behind) for module in stages]
    part.pipeline.loss_fn, step.update = watched, noted_update  # type: ignore[method-assign]
    part.pipeline.forget_schedules()  # they hold on to the loss
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        part.pipeline.loss_fn = loss_fn
        del step.update
        part.pipeline.forget_schedules()
