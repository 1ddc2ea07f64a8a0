"""One step in mixed precision, each square one byte of a value: the page 33_sixteen_bits."""

from diagrams.kit import say

SIZE = (40, 33)
LEFT = 18  # where the bytes begin


def draw(p):
    """What is kept is four bytes long; what goes through the products is half as long."""
    long, short = say("32 bits", "32 位"), say("16 bits", "16 位")
    rows = (
        (1, 4, (say("weights", "权重"),), long),
        (9, 2, (say("products", "乘法"), say("forward, backward", "前向、反向")), short),
        (17, 4, (say("gradients", "梯度"),), long),
        (25, 4, (say("Adam's averages", "Adam 的两个平均"),), long),
    )
    bytes_of = []
    for y, count, (name, *more), bits in rows:
        p.words(1, y + 1.1, name, align="start", bold=True)
        for line in more:
            p.words(1, y + 3.1, line, align="start", tone="quiet")
        bytes_of.append(p.tensor(LEFT, y, [0] * count))
        p.words(LEFT + 2.2 * count + 0.7, y + 1.1, bits, align="start", tone="quiet")
    weights, products, gradients, adam = bytes_of
