"""Whether the ranks parted in a collective, also in one that C++ issued, which nobody checks.

torch's flight recorder knows the calls of DDP, FSDP, DTensor and functional collectives, too.
"""

from collections.abc import Iterable
from dataclasses import replace

from rankbook.autopsy.compare import partings
from rankbook.autopsy.flight import Entry
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import RankOutcome


def to_wire(entries: Iterable[Entry], cells: str) -> list[dict]:
    """Collectives of a rank for a message; of stacks, the frames in files that begin `cells`."""
    return [
        replace(e, frames=tuple(f for f in e.frames if f.file.startswith(cells))).as_dict()
        for e in entries
    ]


def from_wire(records: Iterable[dict]) -> tuple[Entry, ...]:
    """Inverse of `to_wire`, also after a way through JSON."""
    return tuple(map(Entry.of, records))


def mark(endings: Iterable[RankOutcome]) -> None:
    """Note in `endings` the first of their `calls` that differ, if any do."""
    by_rank = {e.rank: e.calls for e in endings if e.calls}
    calls = next((p.calls for p in partings(by_rank) if p.differs), {})
    for ending in endings:
        if entry := calls.get(ending.rank):
            ending.parted = True
            # where it is in that call still, frames have told more than the recorder knows
            at_last = entry == ending.calls[-1] and ending.call and ending.call.op == entry.op
            if not at_last:
                line = entry.frames[-1].line if entry.frames else None
                ending.call = Call(entry.op, entry.text, line, number=entry.number)
