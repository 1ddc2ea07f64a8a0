"""A perceptron cut by columns, then by rows: the page 61_tensor_parallel."""

from diagrams.kit import say

SIZE = (40, 44)
CELL, GAP = 1.6, 0.2


def draw(p):
    """Each rank's quarter of both matrices, filled; f above the ranks and g below them."""
    forward, back = say("forward", "前向"), say("backward", "反向")
    p.words(39, 1.4, say("backward: upwards", "反向：从下往上"), align="end", tone="quiet")
    x = p.step(17, 1, 6, 3, "**x**")
    f = p.step(0.5, 7, 39, 4.6, "**f**", _said(forward, None, back, "`all_reduce`"))
    g = p.step(0.5, 32.4, 39, 4.6, "**g**", _said(forward, "`all_reduce`", back, None))
    y = p.step(17, 40, 6, 3, "**y**")
    p.message(x, f)
    for rank in range(4):
        left = 0.5 + 9.95 * rank
        own = p.process(rank, left, 14.6, 9.15, 15, f"rank {rank}", top=True)
        others = [other for other in range(4) if other != rank]
        look = {"size": CELL, "gap": GAP, "faint": others}
        p.words(left + 4.6, 18.4, "`up`", tone="quiet")
        p.tensor(left + 1.1, 19.6, range(4), **look)
        p.words(left + 2.6, 25.2, "`down`", tone="quiet")
        p.tensor(left + 6.5, 21.8, range(4), down=True, **look)
        share = (left + 4.575 - 0.5) / 39
        p.message(f.port("bottom", share), own)
        p.message(own, g.port("top", share), rank=rank)
    p.message(g, y)


def _said(forward, first, back, second):
    """The line of f or g: what it does in either direction."""
    nothing = say("nothing", "什么也不做")
    first, second = (one or nothing for one in (first, second))

    def text(language):
        def of(word):
            return word if isinstance(word, str) else getattr(word, language)

        stop = ": " if language == "en" else "："
        end = "; " if language == "en" else "；"
        return f"{of(forward)}{stop}{of(first)}{end}{of(back)}{stop}{of(second)}"

    return say(text("en"), text("zh"))
