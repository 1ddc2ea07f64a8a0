"""What a rank's queries may see of another rank's keys: a few blocks, whole or masked, or none."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rankbook.parallel.context.order import stretches


class Block(NamedTuple):
    """Some of the queries here, `rows`, and some of the keys that are there, `columns`.

    mask: True where they may meet, broadcast to (b, h, rows, columns); None: everywhere.
    """

    rows: slice
    columns: slice
    mask: Tensor | None


def visible(
    length: int,
    ranks: int,
    rank: int,
    owner: int,
    order: str = "zigzag",
    documents: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> Iterator[Block]:
    """The blocks of `owner`'s keys that the queries of `rank` look at; not those with no pair.

    length: of the whole sequence. documents: (length,) or (b, length), the number of the text that
    each token of the whole sequence is of; a token looks at earlier ones of its own text only.
    """
    ours, theirs = (stretches(length, ranks, r, order) for r in (rank, owner))
    size = ours[0][1] - ours[0][0]
    for i, (row, row_end) in enumerate(ours):
        for j, (column, column_end) in enumerate(theirs):
            if column > row:  # stretches are equal or apart: all of it is later
                continue
            mask = None
            if column == row:
                mask = torch.ones(size, size, dtype=torch.bool, device=device).tril()
            if documents is not None:
                same = _same(documents, slice(row, row_end), slice(column, column_end)).to(device)
                mask = same if mask is None else mask & same
                if not mask.any():
                    continue
            yield Block(slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size), mask)


def _same(documents: Tensor, rows: slice, columns: slice) -> Tensor:
    """(b or 1, 1, rows, columns): True where both tokens are of one text."""
    whole = documents if documents.dim() == 2 else documents[None]
    return whole[:, None, rows, None] == whole[:, None, None, columns]


def check(q: Tensor, k: Tensor, v: Tensor, ranks: int, documents: Tensor | None) -> None:
    """Raise ValueError if the shapes of the arguments of an attention do not suit each other."""
    if q.dim() != 4 or not q.shape == k.shape == v.shape:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(
            f"q, k and v have the shapes {shapes}; all must be (batch, heads, length here, "
            "d_head), and equal"
        )
    batch, _, here, _ = q.shape
    length = here * ranks
    if documents is not None and tuple(documents.shape) not in ((length,), (batch, length)):
        raise ValueError(
            f"documents are {tuple(documents.shape)}; give the whole sequence's on every rank, "
            f"({length},) or ({batch}, {length}): {ranks} ranks with {here} tokens each"
        )
