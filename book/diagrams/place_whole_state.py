"""From step 9 of one process to step 10 of another: the page 42_nothing_lost."""

from diagrams.kit import say

SIZE = (39, 37)


def draw(p):
    """The state goes to a hidden file, a rename makes it a checkpoint, and step 10 follows 9."""
    p.words(1, 1.3, say("a process", "一个进程"), align="start", tone="quiet")
    done = p.tensor(1, 2.7, [0] * 9, [str(step) for step in range(1, 10)], size=2.8)
    p.fault(30, 4.1)
    state = p.process(0, 19.6, 9, 16, 13.6)
    parts = (
        say("model", "模型"),
        say("optimizer", "优化器"),
        say("scheduler", "学习率调度"),
        say("random numbers", "随机数"),
        say("position", "位置"),
    )
    p.words(27.6, 10.8, say("the state", "状态"), bold=True)
    for number, part in enumerate(parts):
        p.words(27.6, 12.8 + 2 * number, part)
    hidden = p.file(
        1, 9, 11, 5.6, say("hidden file", "隐藏文件"), say("grows", "正在增长"), hidden=True
    )
    whole = p.disk(1, 21.6, 11, 6.4, "checkpoint", say("whole", "完整"))
    p.message(done.port("bottom", 25.4 / done.w * 10), state.port("top", 6.8 / 16), rank=0)
    p.message(state.port("left", 2.8 / 13.6), hidden.port("right"), say("write", "写入"), rank=0)
    p.words(15.8, 13.1, "fsync", tone="quiet")
    p.message(hidden, whole, say("rename", "重命名"), rank=0)
    p.words(1, 31, say("a new process", "新的进程"), align="start", tone="quiet")
    for step in range(1, 13):
        x = 3 * step - 2
        fresh = p.block(0, x, 32.4, 2.8, 2.8, str(step), faint=step < 10)
        if step == 10:
            p.message(whole.port("right"), fresh.port("top"), say("load", "加载"), side="below")
