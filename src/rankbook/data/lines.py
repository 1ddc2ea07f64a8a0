"""The lines of one text file, of any size, shared out over all ranks and their loader workers.

No reader reads the file from its start and nobody counts lines: the file is cut at bytes.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import IterableDataset

from rankbook.data.blocks import blocks_per_reader, bounds, check, lines_from
from rankbook.data.sharding import Reader


class ShardedLines(IterableDataset):
    r"""Every line of a UTF-8 text file exactly once, over all ranks and loader workers.

    A sample is a line as str, without its end (``\n`` or ``\r\n``). Blank lines are samples, too,
    unless `skip_blank`, which leaves out those of white space only. A byte order mark at the start
    is dropped. A line has to fit into memory, the file has not::

        lines = ShardedLines("train.txt", shuffle=True)
        for epoch in range(3):
            lines.set_epoch(epoch)
            for batch in DataLoader(lines, batch_size=8, num_workers=2):
                ...

    shuffle: by `seed` and epoch. The file is cut into blocks of at most `block_size` bytes, and
    the blocks are dealt to the readers anew in each epoch; a reader takes `window` of its blocks
    at a time and shuffles the lines of these. That much it holds in memory. Without `shuffle`,
    reader i reads the i-th part of the file in order.

    errors: ``"replace"`` puts U+FFFD where bytes are not UTF-8; ``"strict"`` raises ValueError
    with the place.

    rank, world_size: overrule those of this process. ``rank=0, world_size=1`` shares out over the
    loader's workers only, for a Trainer that shares out over ranks itself.

    The shares are equal in bytes, not in lines, and each worker makes batches of its own: ranks
    may end after different numbers of batches. A loop that waits for all ranks in each step needs
    ``torch.distributed.algorithms.Join``, or a number of steps that all of them reach.

    Iterators have ``state_dict`` and ``load_state_dict``, which torchdata's
    ``StatefulDataLoader`` calls: it goes on at the very next line. The pass that is resumed has
    the epoch of the state; that of the passes behind it is `set_epoch`'s, as always.

    Raises FileNotFoundError, IsADirectoryError, PermissionError or ValueError, at once and not in
    a worker, for a file that cannot be read; RuntimeError while reading if it has changed.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        shuffle: bool = False,
        seed: int = 0,
        errors: str = "replace",
        skip_blank: bool = False,
        block_size: int = 2**18,
        window: int = 16,
        rank: int | None = None,
        world_size: int | None = None,
    ):
        if errors not in ("replace", "strict"):
            raise ValueError(f'errors={errors!r}: it has to be "replace" or "strict"')
        if block_size < 1 or window < 1:
            raise ValueError(f"block_size={block_size}, window={window}: both have to be 1 or more")
        if (rank is None) != (world_size is None):
            raise ValueError("rank and world_size go together: give both or neither")
        if rank is not None and world_size is not None:
            Reader(rank, world_size)  # raises if they do not fit
        self.path = Path(path)
        self.status = _key(check(self.path))
        self.shuffle, self.seed, self.errors = shuffle, seed, errors
        self.skip_blank, self.block_size = skip_blank, block_size
        self.window = window if shuffle else 1
        self.rank, self.world_size = rank, world_size
        # in shared memory: workers that stay from epoch to epoch have a copy of all else
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    @property
    def size(self) -> int:
        """Of the file, in bytes."""
        return self.status[0]

    @property
    def epoch(self) -> int:
        """What the next iterator shuffles by."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Shuffle anew from the next ``iter`` on; call it on every rank, with the same `epoch`."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> "LineIterator":
        return self.iterate(Reader.here(self.rank, self.world_size))

    def iterate(self, reader: Reader) -> "LineIterator":
        """The share of `reader`, in this epoch."""
        return LineIterator(self, reader)

    def __getstate__(self) -> dict:
        """For a spawned worker, which cannot ask torch.distributed: the rank goes along."""
        here = Reader.here(self.rank, self.world_size)
        known = {} if here.world_size == 1 else {"rank": here.rank, "world_size": here.world_size}
        return self.__dict__ | known

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._epoch.share_memory_()  # a copy that was made by other means is not shared


class LineIterator(Iterator[str]):
    """The lines of one reader in one epoch; made by `ShardedLines`."""

    def __init__(self, lines: ShardedLines, reader: Reader):
        self.lines, self.reader = lines, reader
        self.per_reader = blocks_per_reader(
            lines.size, reader.count, lines.block_size, lines.window
        )
        self._start(lines.epoch, window=0, position=0)

    def _start(self, epoch: int, window: int, position: int) -> None:
        """Stand before line `position` of window `window`; nothing is read yet."""
        self.epoch, self.window, self.position = epoch, window, position
        self._order = self._raw = None

    def __next__(self) -> str:
        while True:
            if self._raw is None:
                if self.window * self.lines.window >= self.per_reader:
                    raise StopIteration
                self._raw = self._read_window()
            if self.position < len(self._raw):
                self.position += 1
                return self._decode(*self._raw[self.position - 1])
            self.window, self.position, self._raw = self.window + 1, 0, None

    def state_dict(self) -> dict:
        """Where it stands, in numbers only: a few hundred bytes, whatever the file's size."""
        place = {"epoch": self.epoch, "window": self.window, "position": self.position}
        return place | {"made_for": self._made_for()}

    def load_state_dict(self, state: dict) -> None:
        """Go on behind the last line that was read before ``state_dict`` was called.

        Raises ValueError if it comes from another file or reader, or from other options.
        """
        here = self._made_for()
        for name, value in state["made_for"].items():
            if here.get(name) != value:
                raise ValueError(
                    f"{self.lines.path}: the state was saved with {name} {value}, and here it is "
                    f"{here.get(name)}; each reader needs its own state, and all else as it was"
                )
        self._start(state["epoch"], state["window"], state["position"])

    def _made_for(self) -> dict:
        """All that decides on the order of this reader's lines, but for the epoch."""
        options = ("size", "shuffle", "seed", "skip_blank", "block_size")
        made_for = {name: getattr(self.lines, name) for name in options}
        made_for |= {"window": self.lines.window, "readers": self.reader.count}
        return made_for | {"reader": self.reader.index}

    def _read_window(self) -> list[tuple[int, bytes]]:
        """The next lines with the bytes they begin at, in the order in which they go out."""
        if self._order is None:
            self._order = self._my_blocks()
        first = self.window * self.lines.window
        found = []
        with self.lines.path.open("rb") as file:
            self._check_unchanged(os.fstat(file.fileno()))
            for block in self._order[first : first + self.lines.window]:
                limits = bounds(block, self.per_reader * self.reader.count, self.lines.size)
                found += lines_from(file, *limits)
        if self.lines.skip_blank:
            found = [(start, line) for start, line in found if line.strip()]
        if not self.lines.shuffle:
            return found
        order = torch.randperm(
            len(found), generator=self._generator(self.reader.index, self.window)
        )
        return [found[i] for i in order.tolist()]

    def _my_blocks(self) -> range | list[int]:
        """The blocks of this reader: a part of the file, or of all blocks in this epoch's order."""
        mine = range(self.reader.index * self.per_reader, (self.reader.index + 1) * self.per_reader)
        if not self.lines.shuffle:
            return mine
        order = torch.randperm(self.per_reader * self.reader.count, generator=self._generator())
        return order[mine.start : mine.stop].tolist()

    def _generator(self, *purpose: int) -> torch.Generator:
        """Random numbers that depend on seed, epoch and `purpose`, and on nothing else."""
        key = repr((self.lines.seed, self.epoch, *purpose)).encode()
        seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
        return torch.Generator().manual_seed(seed)

    def _check_unchanged(self, status: os.stat_result) -> None:
        if _key(status) != self.lines.status:
            raise RuntimeError(
                f"{self.lines.path} has changed since ShardedLines was made: it had "
                f"{self.lines.size} bytes and has {status.st_size}; make it again, on all ranks"
            )

    def _decode(self, start: int, line: bytes) -> str:
        line = line.removesuffix(b"\r")
        try:
            return line.decode("utf-8", self.lines.errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.lines.path}: byte {start + error.start} is not UTF-8 "
                f"(0x{line[error.start]:02x}, {error.reason}); convert the file, or read it with "
                'errors="replace"'
            ) from None


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
