"""What the tutorial stands on, in two environments: the page T11_pipe_and_ddp."""

from diagrams.kit import say

SIZE = (41, 35)
NEEDED = (  # what it imports, and what became of it
    ("torchtext", say("built for\ntorch 2.3", "按 torch 2.3\n编译")),
    ("datapipes", say("dropped\nby torchdata", "torchdata\n已去掉")),
    ("Pipe", say("removed\nin torch 2.4", "torch 2.4\n起移除")),
)


def draw(p):
    """Three imports: today's torch has none of them, the legacy kernel has all."""
    tutorial = p.file(12.5, 0.8, 16, 4, say("the tutorial", "教程"))
    p.node(0.5, 16, 40, 9.4, say("torch today", "今天的 torch"))
    p.node(0.5, 27, 40, 7, say("legacy kernel, torch 2.3", "旧 kernel，torch 2.3"))
    p.words(39, 17.8, "ImportError", align="end", tone="bad")
    for number, (name, fate) in enumerate(NEEDED):
        x = 2 + 13 * number
        needed = p.step(x, 9, 11, 4, name)
        p.message(tutorial.port("bottom"), needed.port("top"))
        p.fault(x + 1, 22)
        p.words(x + 2.4, 22, fate, align="start", tone="quiet")
        p.held(x + 5.5, 31.7)
