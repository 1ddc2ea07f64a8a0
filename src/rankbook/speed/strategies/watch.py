"""One step of a rank, watched: the bytes of each part after each operation, and what was sent."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rankbook.comm.ring_model import ring_bytes
from rankbook.predict.memory.hiding import unseen
from rankbook.predict.memory.ledger import REST, Ledger
from rankbook.speed.batches import Batch
from rankbook.speed.strategies.memory import PARTS, Bytes
from rankbook.speed.strategies.strategy import Strategy

_OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
}


@dataclass(frozen=True)
class Tape:
    """A step: `moments` are bytes by part after each operation; `begins` is where phases begin.

    sent: bytes that this rank sends if each collective goes round a ring, by collective.
    """

    moments: list[dict[str, int]]
    begins: dict[str, int]
    sent: dict[str, float]

    @property
    def peak(self) -> Bytes:
        """The fullest moment."""
        return Bytes(**max(self.moments, key=lambda parts: sum(parts.values())))

    @property
    def strategy_peak(self) -> Bytes:
        """The fullest moment if activations are left out: what the strategy answers for."""
        return max((Bytes(**{**m, REST: 0}) for m in self.moments), key=lambda b: b.total)

    @property
    def fullest(self) -> str:
        """The phase with the fullest moment: "forward", "backward" or "update"."""
        at = max(range(len(self.moments)), key=lambda i: sum(self.moments[i].values()))
        return [phase for phase, start in self.begins.items() if start <= at][-1]

    @property
    def activations(self) -> int:
        """The most that activations, and what operations need for a moment, took until backward
        was done."""
        return max(m[REST] for m in self.moments[: self.begins["update"]])

    @property
    def temporaries(self) -> int:
        """The most that operations needed for a moment in the update."""
        return max(m[REST] for m in self.moments[self.begins["update"] :])


def watch(
    make: Callable[[], Strategy], batches: Sequence[Batch], device: torch.device | str = "cpu"
) -> Tape:
    """Train what `make` wraps on global `batches`, at least two, and watch the last step.

    The steps before it are needed: DDP makes its buckets anew after the first, and Adam its state.
    All ranks have to call it. Counted is what lies on devices of `device`'s type. Raises ValueError
    for fewer batches.
    """
    if len(batches) < 2:
        raise ValueError("watch needs two batches or more: the first step is not like the others")
    with unseen(), Ledger(device) as ledger:
        trained = make()
        for batch in batches[:-1]:
            trained.step(batch)
            ledger.tag_held(trained.held())
        begins = {"forward": ledger.clock}
        _note(trained, ledger, begins)
        trained.step(batches[-1])
        ledger.tag_held(trained.held())
    trained.close()
    start = begins["forward"]
    moments = [
        {part: line[part] for part in (*PARTS, "gathered", REST)} for line in ledger.timeline(start)
    ]
    after = [(name, size) for when, name, size in ledger.messages if when > start]
    begins = {phase: when - start for phase, when in begins.items()}
    return Tape(moments, begins, sent_in_rings(after, trained.ranks))


def _note(trained: Strategy, ledger: Ledger, begins: dict[str, int]) -> None:
    """From now on, note when `trained` begins its backward pass and its update."""
    backward, update = trained.backward, trained.update

    def noted_backward(loss):
        begins["backward"] = ledger.clock
        backward(loss)

    def noted_update():
        ledger.tag_held(trained.held())  # the gradients are all there now
        begins["update"] = ledger.clock
        update()

    trained.backward, trained.update = noted_backward, noted_update


def sent_in_rings(messages: Sequence[tuple[str, int]], ranks: int) -> dict[str, float]:
    """Bytes that a rank sends for collectives (name, bytes of the whole), by collective."""
    sent: dict[str, float] = defaultdict(float)
    for name, size in messages:
        plain = name.strip("_").replace("_base", "").replace("_coalesced", "")
        for known, operation in _OPERATIONS.items():
            if plain.startswith(known):
                handed = size / ranks if known == "allgather" else size
                sent[known] += ring_bytes(operation, handed, ranks)
        if plain.startswith("broadcast"):
            sent["broadcast"] += size
    return dict(sent)
