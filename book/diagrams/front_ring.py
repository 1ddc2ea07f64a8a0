"""Four ranks pass chunks on around a ring: a picture of the front page."""

from diagrams.kit import say

SIZE = (32, 21)


def draw(p):
    """Each rank sends on what it was sent; the colours are those of the ranks that added."""
    places = [(1, 1), (21, 1), (21, 13), (1, 13)]
    ranks = []
    for rank, (x, y) in enumerate(places):
        ranks.append(p.process(rank, x, y, 10, 7, f"rank {rank}", top=True))
        p.tensor(x + 0.8, y + 3.7, [rank, rank - 1 & 3, rank - 2 & 3, rank - 3 & 3], size=1.95)
    for rank, start in enumerate(ranks):
        p.message(start, ranks[(rank + 1) % 4], rank=rank)
    p.words(16, 10.5, say("one chunk a step", "每步一块"), tone="quiet")
