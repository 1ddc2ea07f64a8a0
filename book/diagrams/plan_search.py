"""How a plan is found: every layout, those that fit, in the order of their time. Page 65_a_plan."""

from diagrams.kit import say

SIZE = (44, 38.5)


def draw(p):
    """From model and machines down to a few layouts; beside it, where the others go."""
    model = p.file(0.5, 0.5, 19, 5.4, say("your model", "你的模型"),
                   say("layers, width, vocabulary", "层数、宽度、词表"))  # fmt: skip
    machines = p.node(20.5, 0.5, 23, 5.4, say("your machines", "你的机器"),
                      say("memory, arithmetic, links", "显存、算力、链路"))  # fmt: skip
    every = p.step(0.5, 9.4, 28, 5, say("**every layout**", "**每一种布局**"),
                   "pp × dp × tp, ZeRO, checkpointing")  # fmt: skip
    p.message(model, every)
    p.message(machines.port("bottom", 3.5 / 23), every.port("top", 23.5 / 28))
    fit = p.step(0.5, 18, 28, 5, say("**which fit**", "**哪些放得下**"),
                 say("bytes of the fullest rank", "最满的 rank 的字节数"))  # fmt: skip
    p.message(every, fit)
    order = p.step(0.5, 26.6, 28, 5, say("**how long a step takes**", "**一步要多久**"),
                   say("work + links + bubble", "计算 + 链路 + 气泡"))  # fmt: skip
    p.message(fit, order)
    best = p.step(0.5, 35, 28, 3, say("three layouts, and a launch command", "三种布局和启动命令"),
                  tone="good")  # fmt: skip
    p.message(order, best)
    large = p.step(31, 18, 12.5, 5, say("does not fit", "放不下"),
                   say("by so many GB", "差多少 GB"), tone="bad")  # fmt: skip
    p.message(fit, large)
    slow = p.step(31, 26.6, 12.5, 5, say("too slow", "太慢"), say("and by what", "慢在哪里"),
                  tone="bad")  # fmt: skip
    p.message(order, slow)
