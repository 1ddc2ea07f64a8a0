"""The log names the rank that waited: the page 53_when_it_goes_wrong."""

from diagrams.kit import say

SIZE = (41, 33)
HERE = say("I am here", "我在这里")


def draw(p):
    """Rank 1 is stuck and silent, rank 0 waits, gives up and is blamed; the records know."""
    log = p.file(23, 0.8, 17, 5.6, say("the log", "日志"), say("root cause: n1", "根因：n1"))
    waits = _lane(p, 0, 10.5, say("waits", "等待"), 15)
    p.fault(31.5, 11.9)
    p.message(
        waits.port("right"), log.port("bottom"), say("raises", "报错"), rank="bad", side="right"
    )
    p.words(21.8, 3.6, say("the wrong node", "点错了节点"), align="end", tone="bad")
    stuck = _lane(p, 1, 27.5, say("stuck, silent", "卡住，沉默"), 24)
    records = p.file(14.8, 18, 9, 4.8, say("records", "记录"))
    found = p.step(
        27, 17.6, 13.5, 5.6, "autopsy", say("rank 1, in `load`", "rank 1：`load`"), tone="good"
    )
    p.message(waits, records, HERE, rank=0)
    p.message(stuck, records, HERE, rank=1)
    p.message(records, found)


def _lane(p, rank, y, doing, length):
    node = f"n{rank + 1}"
    p.words(1, y + 0.4, f"**rank {rank}**", align="start")
    p.words(1, y + 2.4, say(f"on {node}", f"在 {node}"), align="start", tone="quiet")
    p.tensor(8, y, [rank] * 2, size=2.8)
    return p.block(rank, 14.2, y, length, 2.8, doing, faint=True)
