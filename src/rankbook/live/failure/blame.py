"""Who is the cause of a failure, and who only suffers from it. Nothing else decides that."""

import re
import signal
from dataclasses import dataclass, field

from rankbook.live.failure.ending import Raised, RankOutcome

# What the process group raises, and how it reads when others are the cause: the connection it
# waited on went away, or nobody came. Only said of what native code raised in such a call: the
# reader's own exceptions may read the same.
KINDS = ("RuntimeError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError")
LOST = re.compile(
    r"Connection (closed|reset) by peer|Connection was likely closed|Broken pipe|Socket closed"
    r"|(Read|Write) error|writev|[Aa]borted|pair closure|failed to recv|sendBytes failed"
    r"|[Tt]imed out|[Tt]ime-?out|failed to pass monitoredBarrier|\[Rank \d+\]"
    r"|ncclRemoteError|remote process exited"
)
ENDED_BY_AGENT = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL, 130)


@dataclass(frozen=True)
class Verdict:
    """Why it failed; `report` has the words.

    causes: the ranks that no other failure explains, the first first. mismatch: whether the ranks
    made different calls where the same was due. waited: without a cause, those who waited for
    others in vain; early: who had come to the end before, while they waited in one call.
    interrupted: whether the reader ended it, and there is no cause.
    """

    causes: list[RankOutcome] = field(default_factory=list)
    mismatch: bool = False
    waited: list[RankOutcome] = field(default_factory=list)
    early: list[RankOutcome] = field(default_factory=list)
    interrupted: bool = False


def judge_cell(endings: list[RankOutcome], interrupted: bool) -> Verdict:
    """Why a cell of live ranks failed; `endings` of all the ranks that ran it."""
    failed = [e for e in endings if e.raised or e.gone]
    causes = [e for e in failed if e.gone or not suffers(e, interrupted)]
    causes.sort(key=lambda e: e.time)
    apart = any(e.parted for e in endings) or _waited_apart(failed)
    mismatch = any(map(saw_mismatch, failed)) or (not causes and apart)
    if interrupted and not causes:
        return Verdict(mismatch=mismatch, interrupted=True)
    if mismatch or causes:
        return Verdict(causes, mismatch)
    if own := [e for e in failed if e.raised and e.raised.root]:
        return Verdict(own)  # no other failure explains them: the reader's words say most
    done = [e for e in endings if e.finished]
    return _left_alone(failed, done) or Verdict(waited=failed)


def judge_launch(endings: list[RankOutcome], agent_failed: bool = False) -> Verdict:
    """Why a launch of torchrun failed; `endings` of all its workers.

    agent_failed: an agent ended by itself, and so its workers.
    """
    done = [e for e in endings if e.finished]
    ordered = sorted((e for e in endings if not e.finished), key=lambda ending: ending.time)
    own = [e for e in ordered if not (is_consequence(e) or e.parted or as_if_ended_by_agent(e))]
    # Nobody failed by itself. A signal comes from outside if it is not torchrun's SIGTERM.
    killed = [e for e in ordered if e.raised is None and e.code == -signal.SIGKILL]
    suffered = [e for e in ordered if is_consequence(e)]
    if not own and not killed and not agent_failed and any(e.parted for e in endings):
        return Verdict(mismatch=True)
    if not own and not killed and (alone := _left_alone(suffered, done)):
        return alone
    causes = own or killed or suffered[:1] or ordered[:1]
    if agent_failed:  # then it is clear who ended the workers
        causes = [e for e in causes if not as_if_ended_by_agent(e)]
    return Verdict(causes)


def _left_alone(waited: list[RankOutcome], done: list[RankOutcome]) -> Verdict | None:
    """The verdict where ranks that were `done` had left others waiting; None if none had."""
    early = [e for e in done if all(e.time < other.time for other in waited)]
    if not waited or not early:
        return None
    return Verdict(waited=[e for e in waited if e.place == waited[0].place], early=early)


def suffers(ending: RankOutcome, interrupted: bool) -> bool:
    """Whether a rank's exception says only that another rank failed, or that the cell was stopped.

    interrupted: whether the reader did; without, a KeyboardInterrupt is an exception like others.
    """
    chain = [ending.raised, ending.raised and ending.raised.root]
    stopped = interrupted and any(r and r.kind == "KeyboardInterrupt" for r in chain)
    return stopped or saw_mismatch(ending) or is_consequence(ending)


def is_consequence(ending: RankOutcome) -> bool:
    """Whether the process group raised this rank's exception, because of other ranks.

    Evidence, not words, tells that the group did: native code raised it, in a call that waits for
    others. Such a call fails for mistakes of its own, too (an operation that gloo does not have):
    then it reads differently, unless its connections were cut.
    """
    raised = ending.raised
    if raised is None or saw_mismatch(ending):
        return False
    return _lost(raised, ending.blocked) or bool(raised.root and _lost(raised.root, ending.blocked))


def _lost(raised: Raised, cut: bool) -> bool:
    by_group = bool(raised.inside) and raised.kind in KINDS
    return by_group and (cut or bool(LOST.search(raised.message)))


def saw_mismatch(ending: RankOutcome) -> bool:
    """Whether this rank saw that another one made a different call."""
    raised = ending.raised
    return raised is not None and raised.kind == "CollectiveMismatch" and bool(raised.inside)


def failed_alike(endings: list[RankOutcome]) -> bool:
    """Whether all ranks raised the same on the same line, by themselves: they still agree."""
    if any(is_consequence(e) or saw_mismatch(e) for e in endings):
        return False
    ways = {(e.raised.kind, e.call and e.call.line) if e.raised else None for e in endings}
    return len(ways) == 1


def _waited_apart(failed: list[RankOutcome]) -> bool:
    """Every failed rank waited in vain, and not in the same call."""
    calls = [e.call for e in failed if e.call is None or e.call.op not in ("send", "recv", "wait")]
    different = len({call.text if call else "" for call in calls}) > 1
    return different and all(is_consequence(e) for e in failed)


def as_if_ended_by_agent(ending: RankOutcome) -> bool:
    """Whether torchrun's ending of the others would look like this."""
    return ending.raised is None and (ending.code is None or ending.code in ENDED_BY_AGENT)
