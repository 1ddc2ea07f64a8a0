"""Three stages, four microbatches, and the time in between: a picture of the front page."""

from diagrams.kit import say

SIZE = (32, 21)
FORWARD, BACKWARD = 0, 1
SLOT, ROW = 2.02, 4.2


def draw(p):
    """GPipe, with a backward pass as long as the forward one: a third of the time is bubble."""
    for stage in range(3):
        y = 3.4 + stage * ROW
        p.words(1, y + 1.6, f"stage {stage}", align="start")
        for slot in range(12):
            kind, number = work(stage, slot)
            p.block(kind, 7 + slot * SLOT, y, SLOT - 0.25, 3.2, *number, faint=kind is None)
    p.words(
        16,
        1.5,
        say("four microbatches, forward and back", "四个 microbatch，前向再反向"),
        tone="quiet",
    )
    p.words(16, 18.2, say("the gaps are the bubble", "空着的就是气泡"), tone="quiet")


def work(stage: int, slot: int) -> tuple[int | None, tuple[str, ...]]:
    """What a stage does in a slot of time, and on which microbatch."""
    if stage <= slot < stage + 4:
        return FORWARD, (str(slot - stage),)
    first = 6 + 2 - stage
    if first <= slot < first + 4:
        return BACKWARD, (str(slot - first),)
    return None, ()
