"""How well more ranks are used, and what a step of DDP consists of."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """What a step of DDP consists of, in seconds, each part measured by itself.

    share: forward and backward of the rows of one rank. optimizer: of all parameters, on every
    rank. all_reduce: of all gradients. hidden: the share of it under the backward pass, 0 to 1.
    Raises ValueError.
    """

    share: float
    optimizer: float
    all_reduce: float = 0.0
    hidden: float = 0.0

    def __post_init__(self):
        if min(self.share, self.optimizer, self.all_reduce) < 0:
            raise ValueError(f"a part of a step takes no less than 0 seconds: {self}")
        if not 0 <= self.hidden <= 1:
            raise ValueError(f"hidden is a share from 0 to 1, not {self.hidden}")

    @property
    def step(self) -> float:
        """Seconds of the step, if nothing of it but `hidden` happens at the same time."""
        return self.share + self.optimizer + (1 - self.hidden) * self.all_reduce


def speed_up(seconds_one: float, seconds_many: float) -> float:
    """How many times as fast the same number of samples was computed. Raises ValueError."""
    if min(seconds_one, seconds_many) <= 0:
        raise ValueError(f"times must be positive, not {seconds_one} and {seconds_many}")
    return seconds_one / seconds_many


def efficiency(seconds_one: float, seconds_many: float, ranks: int) -> float:
    """The speed-up of `ranks` for each of them: 1 if they lose nothing by working together.

    Both times are of the same samples. Of one step at the same global batch, it is the efficiency
    of strong scaling. Raises ValueError for times or ranks that are not positive.
    """
    if ranks < 1:
        raise ValueError(f"there must be 1 rank or more, not {ranks}")
    return speed_up(seconds_one, seconds_many) / ranks


def weak_efficiency(seconds_one: float, seconds_many: float) -> float:
    """That of weak scaling: a step of one rank over a step of many, each with the same batch.

    Raises ValueError for times that are not positive.
    """
    return speed_up(seconds_one, seconds_many)


def steps_per_epoch(samples: int, batch: int, ranks: int = 1, drop_last: bool = False) -> int:
    """Optimizer steps of one pass if each of `ranks` takes `batch` samples a step."""
    share = samples / (batch * ranks)
    return math.floor(share) if drop_last else math.ceil(share)
