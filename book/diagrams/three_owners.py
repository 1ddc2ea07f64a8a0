"""Who owns the training loop: the page 36_trainer_or_fabric."""

from diagrams.kit import say

SIZE = (41, 26)
ROWS = (
    say("the loop", "循环"),
    say("saving, logs", "保存、日志"),
    say("one step", "一步训练"),
    say("devices,\nprecision,\nranks", "设备、\n精度、\nrank"),
)
TOPS = (4, 8.5, 13, 17.5, 25)  # where the rows begin, and the last one's end
YOU = say("you", "你")


def draw(p):
    """Three columns: what you write is in colour, what the library does is grey."""
    for name, top, end in zip(ROWS, TOPS, TOPS[1:], strict=False):
        p.words(0.8, (top + end - 0.7) / 2, name, align="start")
    columns = (
        (say("plain loop", "普通循环"), ((0, 4, YOU),)),
        ("Fabric", ((0, 3, YOU), (3, 4, "Fabric"))),
        ("Trainer", ((0, 2, "Trainer"), (2, 3, YOU), (3, 4, "Trainer"))),
    )
    for number, (name, parts) in enumerate(columns):
        x = 13 + 9.4 * number
        p.words(x + 4.4, 1.8, name, bold=True)
        for first, last, owner in parts:
            place = (x, TOPS[first], 8.8, TOPS[last] - TOPS[first] - 0.7, owner)
            p.process(0, *place) if owner is YOU else p.step(*place)
