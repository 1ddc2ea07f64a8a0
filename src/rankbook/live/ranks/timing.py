"""What ``%%ranks --time`` shows: each rank's seconds, and who waited for whom."""

from collections import Counter
from dataclasses import dataclass

from rankbook.live.screen.output import label

LITTLE = 0.05  # seconds of waiting that are not worth a word
HOW = "Waiting is being in a collective without using the processor, looked at 50 times a second."


@dataclass(frozen=True)
class Timing:
    """A rank's cell: `begin` and `end` in seconds of the machine's clock, which all ranks share.

    waits: (begin, end, call) of every time that the rank waited in a collective.
    """

    begin: float
    end: float
    waits: list

    @property
    def waited(self) -> float:
        """Seconds of waiting."""
        return sum(end - begin for begin, end, _ in self.waits)

    def waited_without(self, other: "Timing") -> float:
        """Seconds of waiting in which `other` did not wait: then it was waited for."""
        both = sum(
            max(0.0, min(end, end_) - max(begin, begin_))
            for begin, end, _ in self.waits
            for begin_, end_, _ in other.waits
        )
        return self.waited - both


def format_timings(timings: dict[int, Timing]) -> str:
    """A line for each rank, and how it was measured."""
    lines = [_line(rank, timing, timings) for rank, timing in sorted(timings.items())]
    return "\n".join([*lines, HOW])


def _line(rank: int, timing: Timing, timings: dict[int, Timing]) -> str:
    line = f"{label([rank])} {timing.end - timing.begin:.2f} s"
    if timing.waited < LITTLE:
        return f"{line}, no waiting"
    apart = {r: timing.waited_without(t) for r, t in timings.items() if r != rank}
    whom = [f"{s:.2f} s for rank {r}" for r, s in apart.items() if s >= LITTLE]
    places = Counter()
    for begin, end, place in timing.waits:
        places[place] += end - begin
    (place, _), *others = places.most_common(2)
    where = f"{'mostly ' if others else ''}in {place}"
    line += f", {timing.waited:.2f} s of it waiting"
    return "; ".join([f"{line} {where}", *([", ".join(whom)] if whom else [])])
