"""How one rank left a cell or a launch: what is known of it, without a judgement."""

from dataclasses import dataclass

from rankbook.autopsy.flight import Entry
from rankbook.live.failure.call import Call
from rankbook.live.screen.output import label


@dataclass(frozen=True)
class Raised:
    """An exception that ended a rank's work.

    kind: the name of its class. message: its text. traceback: what to show of its frames, lines
    in one string.
    inside: the call of torch.distributed that raised it in native code ("all_reduce", "wait"); ""
    if Python code raised it, the reader's or a library's. root: the exception of that kind, or the
    interrupt, that led to this one. Both are found by `failure.native`.
    """

    kind: str
    message: str
    traceback: str = ""
    inside: str = ""
    root: "Raised | None" = None

    @classmethod
    def of(cls, kind: str, message: str, traceback: str, evidence: dict) -> "Raised":
        """With `evidence` as `failure.native` gives it; empty where nothing is known."""
        root = Raised(**evidence["root"]) if evidence.get("root") else None
        return cls(kind, message, traceback, evidence.get("inside", ""), root)


@dataclass
class RankOutcome:
    """How one rank ended, as far as it is known.

    rank: the global rank. node: the name of its agent, where there are several.
    raised: its exception. code: the exit code of a process that was to end anyway (negative: the
    signal's number); None if nobody saw it. gone: in words, how a process ended that was to live
    on. crash: the stack that a crash left, lines in one string.
    call: where it was when it raised, was ended, or was looked at. blocked: whether it waited in
    that call for other ranks after one of them had failed. finished: whether it came to the end.
    calls: its last collectives, oldest first, where they were asked for.
    parted: whether `call` differs from what another rank called where the same was due.
    time: of the failure, in seconds since the epoch; 0 where ranks are not compared by it.
    """

    rank: int
    node: str = ""
    raised: Raised | None = None
    code: int | None = None
    gone: str = ""
    crash: str = ""
    call: Call | None = None
    blocked: bool = False
    finished: bool = False
    calls: tuple[Entry, ...] = ()
    parted: bool = False
    time: float = 0.0

    @property
    def name(self) -> str:
        """The rank, with its node if there are several."""
        return who([self])

    @property
    def place(self) -> str:
        """Call and line in words: ``all_reduce, cell line 4``; empty if nothing is known."""
        known = self.call is not None and (self.call.text or self.call.line)
        return self.call.place if self.call and known else ""


def who(endings: list[RankOutcome]) -> str:
    """Ranks in words: ``rank 1`` or ``[0-2]``, after the node's name if there are several."""
    nodes = list(dict.fromkeys(e.node for e in endings))
    if len(nodes) > 1:
        return " and ".join(who([e for e in endings if e.node == node]) for node in nodes)
    ranks = label(e.rank for e in endings) if len(endings) > 1 else f"rank {endings[0].rank}"
    return f"{endings[0].node} {ranks}".lstrip()
