"""A long text as batches: rows of a table, and windows that walk along them.

As in the original, but the batch comes first: microbatches cut the first dimension.
"""

from collections.abc import Iterable, Iterator

import torch
from torch.nn import functional as F

from rankbook.models.loss import IGNORED


def batchify(ids: torch.Tensor, rows: int) -> torch.Tensor:
    """Lay the text `ids` (1-D) out in `rows` of equal length, one stretch of the text each.

    What does not fill a column is dropped: fewer than `rows` tokens. Returns (rows, length).
    Raises ValueError if a row would have less than two tokens, of which one can be predicted.
    """
    length = len(ids) // max(rows, 1)
    if rows < 1 or length < 2:
        raise ValueError(
            f"a text of {len(ids)} tokens cannot fill {rows} rows with two tokens or more; "
            "use fewer rows"
        )
    return ids[: rows * length].view(rows, length)


def get_batch(source: torch.Tensor, start: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The window of `source` (rows, columns) from column `start`: its tokens, and the next ones.

    Returns (tokens, targets), both (rows, length); the last window of a text may be shorter.
    """
    length = min(length, source.shape[1] - 1 - start)
    return source[:, start : start + length], source[:, start + 1 : start + 1 + length]


def count_batches(source: torch.Tensor, length: int) -> int:
    """How many windows of `length` predict every column of `source` but the first, once.

    The last one may be shorter.
    """
    return -(-(source.shape[1] - 1) // length)


def windows(
    source: torch.Tensor, length: int, limit: int | None = None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """All windows of `length` in `source`, or the first `limit`, each as `get_batch` gives it."""
    for index in range(min(count_batches(source, length), limit or source.shape[1])):
        yield get_batch(source, index * length, length)


def padded(
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]], length: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """`batches` (tokens, targets), each (rows, `length` or less), with shorter ones made as long.

    What is added counts nowhere: its targets are `IGNORED`. Its tokens are id 0, at the end, where
    no position before looks.
    """
    for tokens, targets in batches:
        more = 0, length - tokens.shape[1]
        yield F.pad(tokens, more, value=0), F.pad(targets, more, value=IGNORED)


def steps_of_epoch(source: torch.Tensor, length: int) -> int:
    """How many whole windows of `length` `source` (rows, columns) has: optimizer steps an epoch.

    Raises ValueError if there is none.
    """
    whole = (source.shape[1] - 1) // length
    if whole < 1:
        raise ValueError(
            f"rows of {source.shape[1]} tokens have no window of {length} and its next token; "
            "use fewer rows or a shorter window"
        )
    return whole


def training_batch(
    source: torch.Tensor, step: int, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The window of `source` (rows, columns) for optimizer step `step`, from 0.

    Whole windows of `length` only, again and again.

    Where the data stand is a function of the step alone: a resumed run has nothing to restore.
    Raises ValueError if there is no whole window.
    """
    return get_batch(source, step % steps_of_epoch(source, length) * length, length)
