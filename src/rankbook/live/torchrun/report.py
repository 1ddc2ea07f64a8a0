"""Why a launch failed, from what its workers and its agent left; `failure` judges and words it."""

from rankbook.live.errors import CellFailed
from rankbook.live.failure import report
from rankbook.live.failure.blame import Verdict, is_consequence, judge_launch
from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.parting import mark


def explain(endings: list[RankOutcome], agents: list[str]) -> CellFailed:
    """The report on a failed launch, or on several of one job: root cause first.

    endings: of every worker. agents: what became of agents that did not fail because of a worker,
    in words.
    """
    verdict = judge_launch(endings, bool(agents))
    if all(map(is_consequence, verdict.causes)):  # nobody's own failure says why
        mark(endings)
        verdict = judge_launch(endings, bool(agents))
    lines = [*agents, *_others(endings, verdict)]
    known = verdict.causes or report.finding(verdict) or lines
    return report.compose(verdict, lines if known else [report.UNKNOWN])


def interrupted(endings: list[RankOutcome], seconds: float) -> CellFailed:
    """The report on a launch that the reader interrupted; it ended `seconds` later."""
    mark(endings)
    parted = [e for e in endings if e.parted]
    lines = [report.interrupted(seconds)]
    lines += [report.MISMATCH, *map(report.called, parted)] if parted else []
    lines += [report.was_in(e) for e in endings if e.place and e not in parted]
    if left := [e for e in endings if e.finished]:
        lines.append(report.left(left))
    return report.compose(Verdict(), lines)


def _others(endings: list[RankOutcome], verdict: Verdict) -> list[str]:
    """One line for each worker that is not a cause; those that ended well have one together."""
    lines = []
    for e in endings:
        if verdict.mismatch and (e.parted or (e.call and e.call.op)):
            lines.append(report.called(e))
        elif not e.finished and e not in verdict.causes:
            lines.append(report.stopped(e, verdict) if e.raised else report.ended_by_agent(e))
    left = [e for e in endings if e.finished and e not in verdict.early]
    return [*lines, report.left(left)] if left else lines
