"""A hang in words, while it lasts: who waits in which call, who has not come and what it does.

What is known comes from two looks at the ranks, a second apart. Does not load torch.
"""

from collections.abc import Mapping

from rankbook.live.failure.call import Call

HINT = 4.0  # seconds of silence after which ranks are looked at
LOOK = 1.0  # seconds from one look to the next
STUCK = "does not answer: it is stopped, or native code keeps Python's lock"
IDLE = 0.1  # seconds of processor time between two looks up to which a rank only waits


def waiting(calls: Mapping[str, Call], before: Mapping[str, Call]) -> dict[str, Call]:
    """Of `calls`, those that have not moved since the look `before`; keys: ranks, as shown.

    A rank in a loop of collectives moves: its call's `number` grows.
    """
    return {rank: call for rank, call in calls.items() if _hangs(call, before.get(rank))}


def format_hang(waits: Mapping[str, Call], others: Mapping[str, Call], ended: Mapping[str, str]):
    """The lines on a hang, the ranks that wait first.

    waits: ranks that wait for others, by their label ("[0]"). others: ranks that do something
    else. ended: ranks that are no longer there, and what to say of them ("has finished the cell").
    """
    return [
        *(still_waits(rank, call) for rank, call in waits.items()),
        *(line for rank, call in others.items() for line in absent(rank, call)),
        *(f"{rank} {words}" for rank, words in ended.items()),
    ]


def _hangs(now: Call, before: Call | None) -> bool:
    if before is None or not now.op:
        return False
    stands = (now.op, now.text, now.line, now.number)
    moved = stands != (before.op, before.text, before.line, before.number)
    return not moved and now.cpu - before.cpu < IDLE


def still_waits(rank: str, call: Call) -> str:
    """A rank that waits for others."""
    return f"{rank} still waits in {call.place}"


def goes_on(rank: int, failed: int, call: Call) -> str:
    """A rank that waits for nobody, and is not got out of what it does when another fails."""
    return f"[{rank}] goes on after rank {failed} failed: {call.place}"


def absent(rank: str, call: Call) -> list[str]:
    """A rank that has not come: its place, and the way there where it is more than one line."""
    stack = [f"{' ' * len(rank)}   {line}" for line in call.stack] if len(call.stack) > 1 else []
    return [f"{rank} has not come: it is in {call.place}", *stack]
