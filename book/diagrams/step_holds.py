"""What a step holds, and when: the page 64_memory."""

from diagrams.kit import say

SIZE = (40, 33.5)
LEFT, PHASES = 13.6, (("forward", 9), ("backward", 9.6), ("update", 6.2))
ROWS = (  # colour, name, what it is per parameter or by what it grows, (from, to) in phases
    (0, say("parameters", "参数"), (0, 3)),
    (2, say("optimizer state", "优化器状态"), (0, 3)),
    (1, say("gradients", "梯度"), (1, 3)),
    (5, say("activations", "激活值"), (0, 2)),
    (3, say("logits", "logits"), (0.85, 1.15)),
    (7, say("buffers, gathered", "buffer、收集来的"), (0, 3)),
    (4, say("workspace", "临时空间"), (0, 3)),
)


def draw(p):
    """A row for each of the seven things, along the three phases."""
    names = (say("forward", "前向"), say("backward", "反向"), say("update", "更新"))
    edges = [LEFT]
    for (_, width), name in zip(PHASES, names, strict=True):
        p.words(edges[-1] + width / 2, 1.4, name, tone="quiet")
        edges.append(edges[-1] + width)

    def at(phase):
        whole = min(int(phase), 2)
        return edges[whole] + (phase - whole) * (edges[whole + 1] - edges[whole])

    for row, (color, name, (begin, end)) in enumerate(ROWS):
        y = 3 + 3.4 * row
        p.words(1, y + 1.2, name, align="start")
        if color == 1:  # they come layer by layer
            _steps(p, color, y, at, [(1 + i / 6, 1 + (i + 1) / 6, (i + 1) / 6) for i in range(6)])
            p.block(color, at(2), y, at(3) - at(2), 2.4)
        elif color == 5:  # they pile up, and go in reverse order
            up = [(i / 6, (i + 1) / 6, (i + 1) / 6) for i in range(6)]
            down = [(1 + i / 6, 1 + (i + 1) / 6, (6 - i) / 6) for i in range(6)]
            _steps(p, color, y, at, up + down)
        elif color == 7:  # for the moment of a message
            for phase in (0.1, 0.42, 0.74, 1.15, 1.47, 1.79):
                p.block(color, at(phase), y + 0.6, 1.1, 1.8)
        elif color == 4:
            for number in range(12):
                p.block(color, at(number / 4 + 0.08), y + 1.4, 0.6, 1)
        else:
            p.block(color, at(begin), y, at(end) - at(begin), 2.4)
    y = 3 + 3.4 * len(ROWS)
    p.words(1, y + 1.2, say("fragmentation", "碎片"), align="start")
    for number in range(9):
        p.block(None, LEFT + 2.8 * number, y + 0.2, 0.9 + 0.15 * (number % 4), 2, faint=True)
    p.words(
        1,
        y + 4.6,
        say(
            "the first three belong to the model; the rest to the step",
            "前三行属于模型，其余属于这一步",
        ),
        align="start",
        tone="quiet",
    )


def _steps(p, color, y, at, stairs):
    """Blocks side by side, each as high as its share."""
    for begin, end, share in stairs:
        height = round(2.4 * share, 1)
        p.block(color, at(begin), y + 2.4 - height, at(end) - at(begin) - 0.45, height)
