"""Who speaks to whom: many controllers, one controller, a notebook: the page A2_one_controller."""

from diagrams.kit import say

SIZE = (43.5, 47)


def draw(p):
    """Three rows: who orders, the two ranks, and the collective between them."""
    starts = say("starts, counts", "启动、清点")
    agent = _row(p, 0.5, say("Many controllers", "许多控制器"), "`torchrun`", starts)
    _ranks(p, 0.5, agent, say("own program", "自己的程序"))
    orders = say("the program", "程序")
    one = _row(p, 16.5, say("One controller", "一个控制器"), "Monarch", orders)
    _ranks(p, 16.5, one, "actor", say("order", "指令"))
    cell = say("one cell", "一个单元格")
    about = say("live ranks", "运行中的 rank")
    book = _row(p, 32.5, say("A notebook", "一个 notebook"), about, cell)
    _ranks(p, 32.5, book, say("runs the cell", "运行单元格"), say("cell", "单元格"))


def _row(p, y, name, *said):
    p.words(1, y + 0.6, name, align="start", bold=True)
    return p.step(1, y + 4.6, 13, 5.4, *said)


def _ranks(p, y, source, doing, order=""):
    zero, one = (p.process(r, 26, y + 8.6 * r, 15, 5, f"rank {r}", doing) for r in (0, 1))
    for rank in (zero, one):
        if order:
            p.message(source, rank, order, both=True)
        else:
            p.message(source, rank, dashed=True)
    p.message(zero, one, "`all_reduce`", both=True, side="right")
