"""What the ranks of a cell are asked for to see where they parted, and when."""

from rankbook.autopsy.flight import recent_collectives
from rankbook.live.failure.blame import saw_mismatch, suffers
from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.parting import to_wire


def made(since: float, cells: str) -> list[dict]:
    """On a rank: its collectives of this group, made `since`; of stacks, the frames in `cells`.

    since: in seconds since the epoch. cells: the folder in which ipykernel says that cells are.
    """
    return to_wire((entry for entry in recent_collectives() if entry.time >= since), cells)


def unexplained(endings: dict[int, RankOutcome], interrupted: bool) -> bool:
    """Whether ranks failed, and no rank's own failure says why."""
    failed = [e for e in endings.values() if e.raised or e.gone]
    if any(e.gone or saw_mismatch(e) for e in failed):
        return False
    return bool(failed) and all(suffers(e, interrupted) for e in failed)
