"""How well more ranks are used, and the same numbers for the original's table."""

import math

# Minutes for 3 epochs on one A100 and on four, 16-bit mixed precision; samples it trains on, the
# batch of one GPU, and the rate, which stays as it is on four.
ORIGINAL = {"one": 8.25, "four": 3.07, "samples": 35_000, "batch": 12, "epochs": 3, "lr": 5e-5}


def speed_up(seconds_one: float, seconds_many: float) -> float:
    """How many times as fast the same number of samples was computed. Raises ValueError."""
    if min(seconds_one, seconds_many) <= 0:
        raise ValueError(f"times must be positive, not {seconds_one} and {seconds_many}")
    return seconds_one / seconds_many


def efficiency(seconds_one: float, seconds_many: float, ranks: int) -> float:
    """The speed-up of `ranks` for each of them: 1 if they lose nothing by working together.

    Both times are of the same samples. Raises ValueError for times or ranks that are not positive.
    """
    if ranks < 1:
        raise ValueError(f"there must be 1 rank or more, not {ranks}")
    return speed_up(seconds_one, seconds_many) / ranks


def steps_per_epoch(samples: int, batch: int, ranks: int = 1, drop_last: bool = False) -> int:
    """Optimizer steps of one pass if each of `ranks` takes `batch` samples a step."""
    share = samples / (batch * ranks)
    return math.floor(share) if drop_last else math.ceil(share)
