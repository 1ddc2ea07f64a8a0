"""How long IMDB's reviews are, in DistilBERT's tokens: counted, so that padding can be computed.

    python -m benchmarks.imdb_lengths

Writes book/results/imdb_lengths.json: the reviews of the chapter on padding, uncut, in the files'
order, and the order in which an epoch of its loader takes them. The figure that moves on that page
computes from these numbers what `rankbook.speed.padding` computes. Nothing is timed.
"""

from collections import Counter

import torch

from benchmarks.record import write
from rankbook.speed.batches import Order
from rankbook.speed.sizes import size
from rankbook.speed.tokenising import tokenised

LONGEST = 10_000  # tokens: no review is as long, so that none is cut
WIDTH = 128  # tokens: what the table counts together
WHAT = (
    "Film reviews of IMDB by their length in DistilBERT's tokens, [CLS] and [SEP] included and "
    "nothing cut: the first {train} of the training split, {validation} of the validation split "
    "and {test} of the test split. `lengths`: of each; `epoch`: the order in which the loader "
    "takes them in epoch 0 with seed 0"
)


def main() -> None:
    """Count, print the table, and write the result."""
    uncut = size("cpu", max_length=LONGEST)
    lengths = torch.cat([part.lengths for part in tokenised(uncut).values()])
    assert int(lengths.max()) < LONGEST
    epoch = torch.cat(Order(lengths, "packed", 1).batches())
    rows = table(lengths.tolist())
    print(*rows, sep="\n")
    path = write(
        "imdb_lengths",
        WHAT.format(**uncut.splits),
        rows,
        libraries=("torch", "transformers"),
        kind="CPU",
        lengths=lines(lengths.tolist()),
        epoch=lines(epoch.tolist()),
    )
    print(path)


def table(lengths: list[int]) -> list[dict]:
    """How many reviews have so many tokens."""
    counts = Counter(length // WIDTH for length in lengths)
    return [
        {"tokens": f"{WIDTH * place} to {WIDTH * (place + 1) - 1}", "reviews": counts[place]}
        for place in range(max(counts) + 1)
    ]


def lines(numbers: list[int], width: int = 20) -> list[str]:
    """Numbers as lines of some: a file with one a line would be long, and nobody's to read."""
    return [" ".join(map(str, numbers[at : at + width])) for at in range(0, len(numbers), width)]


if __name__ == "__main__":
    main()
