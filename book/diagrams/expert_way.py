"""The way of six tokens to their experts and back: the page 67_experts."""

from diagrams.kit import say

SIZE = (42, 55)
LEFT, WIDE, CELL = (0.5, 22), 19.5, 1.9
PITCH = CELL + 0.2
CHOSEN = ({"a": (2, 3), "b": (0, 3), "c": (3, 2)}, {"d": (0, 3), "e": (2, 1), "f": (3, 1)})
WEIGHTS = {"a": (7, 3), "b": (6, 4), "c": (8, 2), "d": (5, 5), "e": (6, 4), "f": (9, 1)}


def draw(p):
    """Six tokens on two ranks: chosen for, sorted, sent, worked on, sent back, added up."""
    go = p.step(0.5, 22.2, 41, 3.2, say("`all_to_all`: there", "`all_to_all`：去程"))
    back = p.step(0.5, 37.4, 41, 3.2, say("`all_to_all`: back", "`all_to_all`：回程"))
    for rank, x in enumerate(LEFT):
        own = p.process(rank, x, 0.5, WIDE, 19.4, f"rank {rank}", top=True)
        copies = [(token, expert) for token, two in CHOSEN[rank].items() for expert in two]
        _row(p, x, 4, rank, say("tokens", "token"), [(token, None) for token in CHOSEN[rank]])
        _row(p, x, 8.4, rank, say("the router chooses", "路由器选择专家"), copies)
        copies.sort(key=lambda copy: copy[1])
        _row(p, x, 14.6, rank, say("sorted by expert", "按专家排序"), copies)
        p.message(own, go.port("top", (x + WIDE / 2 - 0.5) / 41), rank=rank)
        there = p.process(rank, x, 28, WIDE, 7, "", top=True)
        p.message(go.port("bottom", (x + WIDE / 2 - 0.5) / 41), there)
        _experts(p, x, rank)
        p.message(there, back.port("top", (x + WIDE / 2 - 0.5) / 41))
        sums = p.process(rank, x, 43.2, WIDE, 11.2, f"rank {rank}", top=True)
        p.message(back.port("bottom", (x + WIDE / 2 - 0.5) / 41), sums)
        _sums(p, x, rank)


def _row(p, x, y, rank, said, copies):
    """Cells in the middle of a rank's box, the numbers of their experts below."""
    p.words(x + WIDE / 2, y, said, tone="quiet")
    start = x + (WIDE - len(copies) * PITCH + 0.2) / 2
    p.tensor(start, y + 1.1, [rank] * len(copies), [token for token, _ in copies], size=CELL)
    for number, (_, expert) in enumerate(copies):
        if expert is not None:
            p.words(start + number * PITCH + CELL / 2, y + 4, f"{expert}", tone="quiet")


def _experts(p, x, rank):
    """Two experts, each with the copies that came to it, in the colours of their ranks."""
    x += 0.55
    for expert in (2 * rank, 2 * rank + 1):
        came = [
            (source, token)
            for source, own in enumerate(CHOSEN)
            for token, two in own.items()
            if expert in two
        ]
        room = max(len(came) * PITCH - 0.2, 6.2) if rank else 8.6
        p.words(x + room / 2, 29.6, say(f"expert {expert}", f"专家 {expert}"), bold=True)
        start = x + (room - len(came) * PITCH + 0.2) / 2
        p.tensor(start, 31, [s for s, _ in came], [token for _, token in came], size=CELL)
        x += room + 1.2


def _sums(p, x, rank):
    """What becomes of each token: the experts' answers, by the router's weights."""
    for number, (token, two) in enumerate(CHOSEN[rank].items()):
        y = 46.1 + 2.6 * number
        p.tensor(x + 1, y, [rank], [token], size=CELL)
        parts = [f"0.{w} E{e}" for e, w in zip(two, WEIGHTS[token], strict=True)]
        p.words(x + 3.6, y + CELL / 2, "= " + " + ".join(parts), align="start")
