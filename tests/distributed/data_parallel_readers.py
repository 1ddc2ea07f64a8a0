"""The data sets of chapter 12: a stream shared out by hand, and the original's ceil split."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from torch.utils.data import IterableDataset, get_worker_info


class Numbers(IterableDataset):
    """0 to 10; `divide` gives this reader's number, and how many there are."""

    def __init__(self, divide: Callable[[], tuple[int, int]]):
        self.divide = divide

    def __iter__(self) -> Iterator[int]:
        first, step = self.divide()
        return iter(range(first, 11, step))


class CeilSplit(IterableDataset):
    """The original's idea: each reader takes ceil(lines / readers) lines, in `rounds` rounds."""

    def __init__(self, path: str, lines: int, rounds: int, rank: int, world_size: int):
        self.path, self.lines, self.rounds = path, lines, rounds
        self.rank, self.world_size = rank, world_size

    def __iter__(self) -> Iterator[str]:
        worker = get_worker_info()
        each = math.ceil(self.lines / (self.world_size * worker.num_workers))
        start = (self.rank * worker.num_workers + worker.id) * each
        for _ in range(self.rounds):
            with Path(self.path).open(encoding="utf-8") as file:
                for _ in range(start):
                    file.readline()
                for _ in range(each):
                    yield file.readline().strip()
