"""Three ways in which replicas meet over a slow link: the page 68_slow_links."""

from diagrams.kit import say

SIZE = (42, 27)
WAYS = (
    (
        say("1 step", "1 步"),
        say("the gradient", "梯度"),
        say("everything, every time", "每次全部发送"),
    ),
    (
        say("1 step", "1 步"),
        say("its largest 1 %", "其中最大的 1 %"),
        say("what is left out comes later", "没发的留到以后"),
    ),
    (
        say("20 steps", "20 步"),
        say("the change", "变化"),
        say("twenty steps alone, then one together", "各走二十步，再一起走一步"),
    ),
)


def draw(p):
    """Two replicas in two towns; in each row, what they do between two meetings, and send."""
    for row, (work, message, words) in enumerate(WAYS):
        y = 0.5 + 9.5 * row
        ends = [
            p.process(rank, x, y, 11, 4.6, f"rank {rank}", work)
            for rank, x in enumerate((0.5, 30.5))
        ]
        p.message(*ends, message, both=True)
        p.words(21, y + 6.3, words, tone="quiet")
