"""What waits between a fault and the next step: the page 46_how_long."""

from diagrams.kit import say

SIZE = (40, 38)
WAITS = (  # height, name, who waits for what, how long by default
    (
        7,
        say("noticed", "发现故障"),
        say("by a collective, the watchdog,\nor an agent", "由集合通信、watchdog\n或 agent"),
        say("at once, or minutes", "立刻，或几分钟"),
    ),
    (
        6,
        say("old workers end", "旧 worker 结束"),
        say("SIGTERM, a grace, SIGKILL", "SIGTERM、宽限期、SIGKILL"),
        say("up to 30 s", "最多 30 秒"),
    ),
    (
        6,
        say("rendezvous", "会合"),
        say("keep-alive, last call", "keep-alive、最后召集"),
        say("up to 45 s", "最多 45 秒"),
    ),
    (
        6,
        say("cold start", "冷启动"),
        say("import, join, load", "导入、加入、加载"),
        say("some seconds", "几秒"),
    ),
)


def draw(p):
    """Time runs down: a fault, four waits one after the other, and the next step."""
    p.tensor(3, 0.8, [0, 0], down=True)
    p.words(8, 1.8, say("training", "训练中"), align="start", tone="quiet")
    y = 7.4
    p.fault(4, y - 1.4)
    p.words(8, y - 1.4, say("fault", "故障"), align="start", bold=True, tone="bad")
    for high, name, of, time in WAITS:
        p.block(None, 3, y, 2, high - 0.4)
        p.words(8, y + 1.2, name, align="start", bold=True)
        p.words(39, y + 1.2, time, align="end", tone="quiet")
        p.words(8, y + 3.2 + (1 if high == 7 else 0), of, align="start", tone="quiet")
        y += high
    p.tensor(3, y, [0, 0], down=True)
    p.words(8, y + 1, say("next step", "下一步"), align="start", bold=True)
