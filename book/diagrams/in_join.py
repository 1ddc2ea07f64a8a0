"""Two ranks with five and six inputs in Join: the page T21_join."""

from diagrams.kit import say

SIZE = (40, 22)
PITCH = 3.5


def draw(p):
    """Step for step: who answers whom, and whose parameters all take at the end."""
    rows = []
    for rank, y in enumerate((5, 12.5)):
        p.words(1, y + 1.7, f"rank {rank}", align="start", bold=True)
        row = [p.block(rank, 7 + PITCH * i, y, 2.9, 3.4, str(i + 1)) for i in range(5)]
        last = {0: "0", 1: "6"}[rank]
        row += [p.block(rank, 7 + PITCH * 5, y, 2.9, 3.4, last, faint=rank == 0)]
        rows.append(row)
    for upper, lower in zip(*rows, strict=True):
        p.message(upper, lower, both=True)
    done = say("no input left:\nanswers with zeros", "没有输入了：\n用零值应答")
    p.words(26, 2.6, done, tone="quiet")
    p.brace(7, 17.2, 6 * PITCH - 0.6, say("`all_reduce` in every step", "每一步都有 `all_reduce`"))
    parameters = say("parameters", "参数")
    first = p.process(0, 29.2, 4.7, 10.3, 4, parameters)
    last = p.process(1, 29.2, 12.2, 10.3, 4, parameters)
    p.message(last, first, rank=1)
    p.brace(29.2, 17.2, 10.3, say("`broadcast`\nat the end", "最后\n`broadcast`"))
