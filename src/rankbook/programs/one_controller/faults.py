"""The faults of rank 1, the two ways to write a controller, and what of a cause was seen."""

import re
from collections.abc import Iterable

CAUSES = {  # of each fault: the words that name it; a line of source has none of them
    "raises": r"ValueError: no data on rank 1",
    "killed": r"SIGKILL|Killed\(sig=9\)",
    "shape": r"\[8\]|8 ?vs\.? 4|mismatch",
    "hangs": r"time\.sleep\(600\)",
}
FAULTS = tuple(CAUSES)
WAYS = ("first", "careful")
BY_BOTH = ("shape",)  # nobody's alone: two ranks differ


def verdict(fault: str, said: Iterable[str]) -> str:
    """What the lines tell of the cause: "first", "later", "without a rank", or "nothing".

    said: what a controller raised, line by line, then what was printed. A cause counts as
    "without a rank" if its line names none, and the fault is one rank's. Where a rank hangs, the
    lines are places, in the order of ranks, and none is late. Raises KeyError for an unknown fault.
    """
    lines = [line for line in said if line.strip()]
    for place, line in enumerate(lines):
        if re.search(CAUSES[fault], line):
            if fault not in BY_BOTH and not re.search(r"[Rr]ank 1\b|gpus': 1/", line):
                return "without a rank"
            return "later" if place and fault != "hangs" else "first"
    return "nothing"


def sentences(lines: list[str]) -> list[str]:
    """The lines, each after the one before it where that ends in a colon: the rank stands there."""
    joined = []
    for before, line in zip(["", *lines], lines, strict=False):
        head = f"{before.strip()} " if before.rstrip().endswith(":") else ""
        joined.append(head + line.strip())
    return joined
