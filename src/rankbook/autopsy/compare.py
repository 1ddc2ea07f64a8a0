"""Where ranks parted: the first call of each group that is missing on a rank, or differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankbook.autopsy.flight import Entry


@dataclass(frozen=True)
class Parting:
    """The first call of a group that not all of its ranks made, or not alike.

    calls: by rank, the call that it made there, for those that made one. missing: ranks of the
    group that never came. differs: "", or what is unlike: "order" (another collective), "shape" or
    "type".
    """

    group: str
    number: int
    calls: dict[int, Entry] = field(default_factory=dict)
    missing: tuple[int, ...] = ()
    differs: str = ""


# Shapes that may differ from rank to rank: only the root has the list, or each its own part.
UNEVEN = ("all_to_all", "all_to_allv", "gather", "scatter", "all_gather_v", "reduce_scatter_v")


def partings(
    by_rank: Mapping[int, Sequence[Entry]], members: Mapping[str, Sequence[int]] | None = None
) -> list[Parting]:
    """The first parting of each group, oldest first; none where all went the same way.

    by_rank: what each rank's recorder held. members: the ranks of each group, by its name; without
    it, of a group those that have called in it, of the default group "0" all.
    """
    found = []
    for group in sorted({e.group for held in by_rank.values() for e in held}):
        calls = {r: {e.number: e for e in held if e.group == group} for r, held in by_rank.items()}
        ranks = _members(group, calls, members)
        if parting := _first(group, {r: calls.get(r, {}) for r in ranks}):
            found.append(parting)
    return sorted(found, key=lambda p: min(e.time for e in p.calls.values()))


def _members(group: str, calls: dict, members: Mapping | None) -> list[int]:
    if members and group in members:
        return sorted(members[group])
    return sorted(r for r, held in calls.items() if held or group == "0")


def _first(group: str, calls: dict[int, dict[int, Entry]]) -> Parting | None:
    """calls: by rank and number. The oldest may have fallen out of a rank's recorder."""
    begin = max((min(held) for held in calls.values() if held), default=1)
    end = max((max(held) for held in calls.values() if held), default=0)
    for number in range(begin, end + 1):
        here = {r: held[number] for r, held in calls.items() if number in held}
        missing = tuple(r for r in calls if r not in here)
        differs = _difference(list(here.values()))
        if here and (missing or differs):
            return Parting(group, number, here, missing, differs)
    return None


def _difference(calls: list[Entry]) -> str:
    """What is unlike in calls that should be one collective; "" if nothing is."""
    if len({call.op for call in calls}) > 1:
        return "order"
    if calls and calls[0].op in UNEVEN:
        return ""
    kinds = [[text.partition(" ") for text in call.inputs] for call in calls]
    if len({tuple(dtype for dtype, _, _ in parts) for parts in kinds}) > 1:
        return "type"
    return "shape" if len({tuple(shape for _, _, shape in parts) for parts in kinds}) > 1 else ""
