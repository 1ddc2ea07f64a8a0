"""What a failed cell says: the root cause first, then who waited where, then what to do."""

import re
from dataclasses import dataclass, field

from rankbook.live.errors import CellFailed
from rankbook.live.output import label
from rankbook.live.ranks.call import Call
from rankbook.live.ranks.frames import shorten

# How a rank's error reads when another rank is the cause: the connection it waited on went away.
CONSEQUENCE = re.compile(
    r"Connection (closed|reset) by peer|Timed out waiting|Broken pipe|Read error|Write error"
    r"|failed to pass monitoredBarrier|[Aa]borted|Socket closed|ncclRemoteError|writev|\[Rank \d+\]"
    r"|^Operation timed out!|timed out in blocking wait"  # a wait with a deadline of its own
)


@dataclass
class Outcome:
    """How one rank left a cell."""

    error: dict | None = None  # ename, evalue, traceback
    death: str = ""
    crash: str = ""
    call: Call = field(default_factory=Call)  # where it was blocked, or where its error came from
    blocked: bool = False
    finished: bool = False

    @property
    def consequence(self) -> bool:
        """Whether another rank's failure explains this one."""
        return bool(
            self.error
            and (self.error["ename"] == "KeyboardInterrupt" or CONSEQUENCE.search(self.evalue))
            and not self.mismatch
        )

    @property
    def evalue(self) -> str:
        """The exception's text."""
        return self.error["evalue"]

    @property
    def frames(self) -> list[str]:
        """The traceback without its head and its last line: the report's first line says both."""
        lines = self.error["traceback"]
        whole = len(lines) > 3 and "Traceback (most recent call last)" in lines[1]
        return shorten(lines[2:-1] if whole else lines)

    @property
    def mismatch(self) -> bool:
        """Whether this rank saw that another one made a different call."""
        return bool(self.error and self.error["ename"] == "CollectiveMismatch")


@dataclass
class Report:
    """The outcomes of all ranks of a cell."""

    outcomes: dict[int, Outcome]
    world_size: int
    interrupted: bool = False
    group_lost: bool = False

    @property
    def failed(self) -> dict[int, Outcome]:
        """The ranks that did not finish the cell."""
        return {r: o for r, o in self.outcomes.items() if o.error or o.death}

    def exception(self) -> CellFailed:
        """The whole report as an exception."""
        summary, lines = self._cause()
        lines += self._others()
        if any(o.death for o in self.outcomes.values()):
            lines.append(self._after_death())
        elif self.group_lost:
            lines += [
                "The variables are kept; the next cell gets a new process group.",
                "Objects that hold the old one (DDP, FSDP, DeviceMesh) must be made again.",
            ]
        return CellFailed(summary, "\n".join(lines))

    def _cause(self) -> tuple[str, list[str]]:
        failed = self.failed
        if dead := {r: o for r, o in failed.items() if o.death}:
            lines = []
            for rank, outcome in dead.items():
                lines.append(f"rank {rank} is gone: {outcome.death}")
                lines += [outcome.crash] if outcome.crash else []
            return lines[0], lines
        if self.interrupted:
            return "interrupted", ["The cell was interrupted."]
        if any(o.mismatch for o in failed.values()) or self._silent_mismatch():
            summary = "collective mismatch: the ranks did not make the same call"
            return summary, [summary]
        causes = {r: o for r, o in failed.items() if not o.consequence}
        if causes:
            return self._raised(causes)
        summary = f"{label(failed)} waited in vain for the other ranks"
        return summary, [summary]

    def _raised(self, causes: dict[int, Outcome]) -> tuple[str, list[str]]:
        groups: dict[tuple, list[int]] = {}
        for rank, outcome in causes.items():
            key = (outcome.error["ename"], outcome.evalue, outcome.call.line)
            groups.setdefault(key, []).append(rank)
        lines = []
        for (ename, evalue, _), ranks in groups.items():
            lines += [f"{label(ranks)} raised {ename}: {evalue}"]
            lines += causes[ranks[0]].frames
        return lines[0].split("\n")[0], lines

    def _silent_mismatch(self) -> bool:
        """Every failed rank waited in vain, and not in the same call."""
        failed = self.failed.values()
        calls = {o.call.text for o in failed if o.call.op not in ("send", "recv", "wait")}
        return len(calls) > 1 and all(o.consequence for o in failed)

    def _others(self) -> list[str]:
        """One line for each rank that is not a cause: what it was in, or that it was done."""
        mismatch = any(o.mismatch for o in self.failed.values()) or self._silent_mismatch()
        lines = []
        for rank, outcome in self.outcomes.items():
            if mismatch and outcome.call.op:
                lines.append(f"rank {rank} called {outcome.call.place}")
            elif outcome.blocked and not outcome.death:
                lines.append(f"rank {rank} was blocked in {outcome.call.place}")
            elif outcome.consequence and outcome.call.place:
                lines.append(f"rank {rank} stopped in {outcome.call.place}")
            elif outcome.finished and any(o.consequence for o in self.failed.values()):
                lines.append(f"rank {rank} had finished the cell")
        absent = sorted(set(range(self.world_size)) - set(self.outcomes))
        if absent and any(o.call.op for o in self.failed.values()):
            lines.append(f"{label(absent)} did not run this cell")
        return lines

    def _after_death(self) -> str:
        dead = [r for r, o in self.outcomes.items() if o.death]
        left = sorted(set(range(self.world_size)) - set(dead))
        kept = f"; {label(left)} kept theirs (%%ranks {left[0]} still works)" if left else ""
        return f"The variables of {label(dead)} are lost{kept}. Start afresh with: %ranks restart"
