"""What makes a loop survive: the page 47_retrofit."""

from diagrams.kit import say

SIZE = (40, 35)


def draw(p):
    """Told to leave, a loop saves its state and position; a restart loads the newest."""
    notice = p.step(2, 1, 14, 5.6, say("notice", "通知"), say("told to leave", "被要求离开"))
    loop = p.process(0, 2, 10.5, 14, 13.5, say("the loop", "循环"), top=True)
    p.block(0, 4, 13.8, 10, 4, say("**state**", "**状态**"), faint=True)
    p.block(0, 4, 18.8, 10, 4, say("**position**", "**位置**"), faint=True)
    saved = p.disk(25, 12.7, 14, 9, "checkpoint", say("whole or absent", "要么完整，\n要么没有"))
    again = p.step(11, 28.4, 18, 5.6, say("restart", "重启"), "`--max-restarts`")
    p.message(notice, loop)
    p.message(loop, saved, say("save", "保存"), rank=0)
    p.message(saved.port("bottom"), again.port("right"), "`newest()`", side="right", share=0.3)
    p.message(
        again.port("left"), loop.port("bottom", 0.35), say("load", "加载"), side="left", share=0.3
    )
