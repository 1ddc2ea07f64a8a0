"""How a reader says it: ranks, calls, and what a rank does instead."""

import re
from collections.abc import Iterable

from rankbook.autopsy import stacks
from rankbook.autopsy.flight import Entry
from rankbook.autopsy.reading import RankRecord
from rankbook.autopsy.stacks import Line

SOURCE = re.compile(r"\[[^\]\s]*\.\w+:\d+\] *")  # where in torch's source an error was made


def ranks(numbers: Iterable[int], capital: bool = True) -> str:
    """``Rank 1``, ``Ranks 0 and 2``, ``Ranks 0, 1 and 2``; of many, ranges: ``Ranks 0-6 and 8``."""
    parts = _ranges(sorted(numbers))
    joined = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    noun = "rank" if joined.isdecimal() else "ranks"
    return f"{noun.capitalize() if capital else noun} {joined}"


def _ranges(numbers: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 3 else map(str, run)
    return parts


def verb(numbers: Iterable[int], one: str, many: str) -> str:
    """`one` for a single rank, else `many`."""
    return one if len(list(numbers)) == 1 else many


def call(entry: Entry, group: str) -> str:
    """``all_reduce(float32 [4]), call 3 of the default group``."""
    return f"{entry.text}, call {entry.number} of {the_group(group)}"


def the_group(name: str) -> str:
    """How a group is called in a sentence."""
    return "the default group" if name == "0" else f"group {name}"


def seconds(value: float) -> str:
    """``12 s``, from two minutes on ``3 min``."""
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def line(where: Line | None) -> str:
    """A line of a stack; "" if there is none."""
    return str(where or "")


def error(rank: RankRecord) -> str:
    """The first line of what a rank raised: torch's own go on with the frames of its C++."""
    first = next(iter(rank.error.strip().splitlines()), "")
    return SOURCE.sub("", first).rstrip(".")


def doing(rank: RankRecord) -> str:
    """What a rank does, in a few words: ``is in the data loader``."""
    if rank.ended in ENDS:
        return ENDS[rank.ended].format(error=error(rank))
    made = stacks.call(rank.lines)
    if made in stacks.P2P:
        way = "to" if stacks.P2P[made] == "dst" else "from"
        return f"waits in {made}" + (f" {way} rank {rank.peer}" if rank.peer is not None else "")
    if stacks.in_loader(rank.lines):
        return "is in the data loader"
    if made or stacks.in_backward(rank.lines):
        return f"is in {made or 'backward'}"
    if stacks.is_writing(rank.lines):
        return "is blocked in a print: nobody reads its output"
    where = stacks.last_line(rank.lines)
    return f"is at {where.place}" if where else "is at a line that is not known"


ENDS = {
    "ended": "has finished",
    "raised": "raised {error}",
    "crashed": "crashed: {error}",
    "died": "died without a word",
    "silent": "fell silent",
}
