"""Who runs a pass: the plain loop, or Lightning's Trainer at the same settings."""

from collections.abc import Callable, Iterable

from rankbook.speed.batches import Batch
from rankbook.speed.loop import Pass, Training, one_pass


def runner(name: str) -> Callable[[Training, Iterable[Batch]], Pass]:
    """The function that trains on a stream of batches: "loop" or "lightning"."""
    if name == "loop":
        return one_pass
    from rankbook.speed import lightning_runner  # only here: Lightning takes seconds to import

    return lightning_runner.one_pass
