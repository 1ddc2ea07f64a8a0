"""One step in mixed precision, a square for each byte of a value: the page 33_sixteen_bits."""

from diagrams.kit import say

SIZE = (36, 33.5)
LEFT = 18  # where the bytes begin


def draw(p):
    """What is kept is four bytes long; what goes through the products is half as long."""
    long, short = say("32 bits", "32 位"), say("16 bits", "16 位")
    both = say("forward, backward", "前向、反向")
    _say(p, 1, say("weights", "权重"), long)
    weights = p.tensor(LEFT, 1.5, [0] * 4)
    _say(p, 9, say("products", "乘法"), both, short)
    products = p.tensor(LEFT, 10.5, [0] * 2)
    for x in (LEFT + 4.4, LEFT + 6.6):
        p.block(None, x, 10.5, 2, 2, faint=True)
    _say(p, 19, say("gradients", "梯度"), long)
    gradients = p.tensor(LEFT, 19.5, [0] * 4)
    _say(p, 27, say("Adam's state", "Adam 的状态"), say("two averages,", "两个平均，"), long)
    adam = p.tensor(LEFT, 27.5, [0] * 4)
    p.tensor(LEFT, 29.7, [0] * 4)
    half = products.w / weights.w / 2  # the middle of the bytes that stay
    p.message(weights.port("bottom", half), products.port("top"), say("round", "舍入"), rank=0)
    p.message(products.port("bottom"), gradients.port("top", half), rank=0)
    p.message(gradients.port("bottom"), adam.port("top"), rank=0)
    corners = ((33.5, 28.5), (33.5, 2.5))
    p.message(
        adam.port("right"),
        weights.port("right"),
        say("update", "更新"),
        rank=0,
        side="left",
        via=corners,
    )


def _say(p, y, name, *more):
    p.words(1, y + 1, name, align="start", bold=True)
    for number, line in enumerate(more):
        p.words(1, y + 3 + 2 * number, line, align="start", tone="quiet")
