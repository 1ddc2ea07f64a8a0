"""Why a launch failed: the ranks' own reports, their exit codes, and who only followed."""

import signal
from dataclasses import dataclass

from rankbook.live.errors import CellFailed
from rankbook.live.output import label
from rankbook.live.ranks.report import CONSEQUENCE

ENDED_BY_AGENT = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL, 130)


@dataclass
class Ending:
    """How one worker of a launch ended."""

    node: str
    rank: int
    code: int | None  # None: the agent did not live to tell
    time: float  # seconds since the epoch
    report: dict | None  # what the rank said of its exception
    stack: dict  # where a signal hit it: "line" and "call"

    @property
    def name(self) -> str:
        """The rank, with its node if there are several."""
        return f"{self.node} rank {self.rank}" if self.node else f"rank {self.rank}"

    @property
    def consequence(self) -> bool:
        """Whether another rank's failure explains this one."""
        return self.report is not None and bool(CONSEQUENCE.search(self.report["message"]))

    @property
    def may_be_closed_by_agent(self) -> bool:
        """Whether torchrun's ending of the others would look like this."""
        return self.report is None and (self.code is None or self.code in ENDED_BY_AGENT)

    @property
    def what(self) -> str:
        """The failure in words."""
        if self.report:
            message = f": {self.report['message']}" if self.report["message"] else ""
            return f"raised {self.report['type']}{message}"
        if self.code is not None and self.code < 0:
            name = signal.Signals(-self.code).name
            hint = " (the system does this too when memory runs out)" if name == "SIGKILL" else ""
            return f"was killed by {name}{hint}"
        return f"left with exit code {self.code}" if self.code is not None else "ended"

    @property
    def place(self) -> str:
        """Where it was: ``all_reduce, cell line 4``; empty if unknown."""
        where = self.report or self.stack
        line = f"cell line {where['line']}" if where["line"] else ""
        return ", ".join(filter(None, [where["call"] if line else "", line]))


def explain(endings: list[Ending], agents: list[str]) -> CellFailed:
    """The report on a failed launch, or on several of one job: root cause first.

    endings: of every worker that failed. agents: what became of agents that did not fail because
    of a worker, in words.
    """
    causes = _causes(endings)
    if agents:  # then it is clear who ended the workers
        causes = [cause for cause in causes if not cause.may_be_closed_by_agent]
    lines = [line for group in _same(causes) for line in _cause(group)] + agents
    lines += [_follower(ending) for ending in endings if ending not in causes]
    lines = lines or ["torchrun failed"]
    return CellFailed(lines[0].split("\n")[0], "\n".join(lines))


def interrupted(endings: list[Ending], seconds: float) -> CellFailed:
    """The report on a launch that the reader interrupted."""
    head = f"interrupted; everything was ended {seconds:.1f} s later"
    places = [f"{ending.name} was in {ending.place}" for ending in endings if ending.place]
    return CellFailed(head, "\n".join([head, *places]))


def _causes(endings: list[Ending]) -> list[Ending]:
    """Those that no other failure explains, the first first; they may be several."""
    ordered = sorted(endings, key=lambda ending: ending.time)
    own = [e for e in ordered if not e.consequence and not e.may_be_closed_by_agent]
    if own:
        return own
    # Nobody raised by itself. A signal comes from outside if it is not torchrun's SIGTERM.
    killed = [e for e in ordered if e.report is None and e.code == -signal.SIGKILL]
    return killed or [e for e in ordered if e.consequence][:1] or ordered[:1]


def _same(causes: list[Ending]) -> list[list[Ending]]:
    """Ranks of one node that failed in the same way, at the same place."""
    groups: dict[tuple, list[Ending]] = {}
    for ending in causes:
        traceback = ending.report["traceback"] if ending.report else ""
        groups.setdefault((ending.node, ending.what, ending.place, traceback), []).append(ending)
    return list(groups.values())


def _cause(group: list[Ending]) -> list[str]:
    first = group[0]
    name = (
        first.name if len(group) == 1 else f"{first.node} {label(e.rank for e in group)}".lstrip()
    )
    if first.report:
        return [f"{name} {first.what}", first.report["traceback"]]
    return [f"{name} {first.what}" + (f" ({first.place})" if first.place else "")]


def _follower(ending: Ending) -> str:
    if ending.report:
        place = f" in {ending.place}" if ending.place else ""
        return f"{ending.name} stopped{place}: {ending.report['type']}, a consequence"
    if ending.place:
        return f"{ending.name} was in {ending.place}; torchrun ended it"
    return f"{ending.name} was ended by torchrun"
