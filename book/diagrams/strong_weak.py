"""Two ways of giving work to two ranks, a square for each row: the page 37_many."""

from diagrams.kit import say

SIZE = (37.4, 28.5)


def draw(p):
    """Strong scaling cuts the batch, weak scaling doubles it."""
    _way(p, 0, say("one rank", "一个 rank"), say("12 rows a step", "一步 12 行"), [12])
    same = say("12 rows: the same training", "12 行：同一个训练")
    _way(p, 8, say("strong scaling", "强扩展"), same, [6, 6])
    other = say("24 rows: another training", "24 行：另一个训练")
    _way(p, 19, say("weak scaling", "弱扩展"), other, [12, 12])
    p.words(24, 13.1, say("half the work", "各做一半"), align="start", tone="quiet")


def _way(p, y, name, what, rows):
    p.words(1, y + 1.5, name, align="start", bold=True)
    p.words(36.4, y + 1.5, what, align="end", tone="quiet")
    for rank, count in enumerate(rows):
        p.words(1, y + 4.1 + 2.8 * rank, f"rank {rank}", align="start")
        p.tensor(10.2, y + 3.1 + 2.8 * rank, [rank] * count)
