"""What a failed cell of live ranks says; `rankbook.live.failure` judges and words it."""

from dataclasses import dataclass

from rankbook.live.errors import CellFailed
from rankbook.live.failure import report
from rankbook.live.failure.blame import Verdict, judge_cell, suffers
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome
from rankbook.live.failure.frames import fold_deep, shorten


def ended(ending: RankOutcome, reply: dict) -> None:
    """Note in `ending` what a kernel's ``execute_reply`` tells of an exception.

    Libraries take a line for a frame.
    """
    lines, evidence = reply["traceback"], reply.get("evidence", {})
    # Without its head and its last line: the report's first line says both.
    whole = len(lines) > 3 and "Traceback (most recent call last)" in lines[1]
    frames = fold_deep(lines[2:-1] if whole else lines, evidence.get("depth", 0))
    ending.raised = Raised.of(reply["ename"], reply["evalue"], "\n".join(shorten(frames)), evidence)
    ending.time = evidence.get("time", ending.time)
    if not ending.blocked and "call" in evidence:
        ending.call = Call(**evidence["call"])


@dataclass
class CellReport:
    """How all ranks of a cell ended.

    endings: by rank. world_size: of the group, of which some may not have run the cell.
    group_lost: whether the ranks may no longer agree on what was communicated.
    """

    endings: dict[int, RankOutcome]
    world_size: int
    interrupted: bool = False
    group_lost: bool = False

    @property
    def failed(self) -> dict[int, RankOutcome]:
        """The ranks that did not finish the cell."""
        return {r: e for r, e in self.endings.items() if e.raised or e.gone}

    def exception(self) -> CellFailed:
        """The whole report as an exception."""
        endings = list(self.endings.values())
        verdict = judge_cell(endings, self.interrupted)
        return report.compose(verdict, [*self._others(verdict), *self._what_is_left()])

    def _others(self, verdict: Verdict) -> list[str]:
        """One line for each rank that is not a cause: what it was in, or that it was done."""
        suffered = any(suffers(e, self.interrupted) for e in self.failed.values())
        lines = []
        for e in self.endings.values():
            if e in verdict.causes or e in verdict.early:
                continue
            if verdict.mismatch and e.call and e.call.op:
                lines.append(report.called(e))
            elif e.blocked:
                lines.append(report.blocked(e))
            elif e.raised:
                lines.append(report.stopped(e, verdict))
            elif e.finished and suffered:
                lines.append(report.left([e]))
        absent = sorted(set(range(self.world_size)) - set(self.endings))
        if absent and any(e.call and e.call.op for e in self.failed.values()):
            lines.append(report.absent(absent))
        return lines

    def _what_is_left(self) -> list[str]:
        """What became of the variables and of the group."""
        if dead := [r for r, e in self.endings.items() if e.gone]:
            left = sorted(set(range(self.world_size)) - set(dead))
            return [report.lost(dead, left)]
        return report.KEPT if self.group_lost else []
