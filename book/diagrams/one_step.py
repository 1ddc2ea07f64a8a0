"""One training step of two replicas: the page 13_data_parallel."""

from diagrams.kit import say

SIZE = (38, 40)


def draw(p):
    """Half of the rows each, two gradients, one average, the same step twice."""
    p.words(19, 1.4, say("a batch of 8 rows", "一个 batch，8 行"), tone="quiet")
    rows = p.tensor(10.3, 2.8, [0] * 4 + [1] * 4, [str(row) for row in range(8)])
    gradient, step = say("gradient", "梯度"), say("the same step", "同样的更新")
    mean = p.step(5, 24, 28, 5.5, "`all_reduce`", say("the average of both", "两份梯度求平均"))
    for rank, x in enumerate((1, 21)):
        whole = say("the whole model", "完整的模型")
        one = p.process(rank, x, 9, 16, 9.2, f"rank {rank}", whole, top=True)
        p.message(rows.port("bottom", 0.25 + 0.5 * rank), one, rank=rank)
        mine = [str(row) for row in range(4 * rank, 4 * rank + 4)]
        p.tensor(x + 3.7, 14.6, [rank] * 4, mine)
        p.message(one.port("bottom"), mean, gradient, rank=rank)
        after = p.process(rank, x, 34.6, 16, 4, step)
        p.message(mean, after)
