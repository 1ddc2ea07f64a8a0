"""The four things that one training step waits for: the page 31_where_the_time_goes."""

import drawsvg

from diagrams.kit import say

SIZE = (40, 27)


def draw(p):
    """One step on the host and on the device; below, one of its operations enlarged."""
    p.words(1, 1.5, say("the host", "主机"), align="start", tone="quiet")
    p.words(1, 12.7, say("the device", "设备"), align="start", tone="quiet")
    p.block(None, 1, 3, 10, 3.6, say("**1** a batch", "**1** 做 batch"))
    launch = say("**2** launch", "**2** 启动")
    for number in range(3):
        begin = p.block(None, 11.6 + 9.2 * number, 3, 8.6, 3.6, launch)
        p.message(begin, p.block("quiet", 12.6 + 9.2 * number, 10.9, 6.6, 3.6))
    for start, end in ((126, 10), (192, 386)):
        p.add("lines", drawsvg.Line(start, 147, end, 198, stroke=p.tone("line"), stroke_width=1.25))
    p.block(None, 1, 20, 10.4, 3.8, say("**3** bytes", "**3** 字节"))
    p.block("quiet", 11.6, 20, 14.6, 3.8, say("**4** arithmetic", "**4** 计算"))
    p.block(None, 26.4, 20, 12.2, 3.8, say("on padding", "算在填充上"), faint=True)
    p.words(
        1, 25.4, say("one operation, enlarged", "放大其中一个操作"), align="start", tone="quiet"
    )
