"""Why a launch failed, from what its workers and its agent left; `failure` judges and words it."""

from rankbook.live.errors import CellFailed
from rankbook.live.failure.blame import MISMATCH, Verdict, is_consequence, judge_launch
from rankbook.live.failure.ending import RankOutcome, who
from rankbook.live.failure.parting import mark
from rankbook.live.failure.report import called, compose, stopped


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
    nothing = not (verdict.causes or verdict.finding or lines)
    return compose(verdict, ["torchrun failed"] if nothing else lines)


def interrupted(endings: list[RankOutcome], seconds: float) -> CellFailed:
    """The report on a launch that the reader interrupted; it ended `seconds` later."""
    verdict = Verdict(finding=f"interrupted; everything was ended {seconds:.1f} s later")
    mark(endings)
    parted = [e for e in endings if e.parted]
    lines = [MISMATCH, *map(called, parted)] if parted else []
    lines += [f"{e.name} was in {e.place}" for e in endings if e.place and e not in parted]
    if left := [e for e in endings if e.finished]:
        lines.append(_left(left))
    return compose(verdict, lines)


def _others(endings: list[RankOutcome], verdict: Verdict) -> list[str]:
    """One line for each worker that is not a cause; those that ended well have one together."""
    lines = []
    for e in endings:
        if verdict.mismatch and (e.parted or (e.call and e.call.op)):
            lines.append(called(e))
        elif not e.finished and e not in verdict.causes:
            lines.append(_follower(e, verdict))
    left = [e for e in endings if e.finished and e not in verdict.early]
    return [*lines, _left(left)] if left else lines


def _left(left: list[RankOutcome]) -> str:
    return f"{who(left)} had left with exit code 0"


def _follower(ending: RankOutcome, verdict: Verdict) -> str:
    if ending.raised:
        return stopped(ending, verdict)
    if ending.place:
        return f"{ending.name} was in {ending.place}; torchrun ended it"
    return f"{ending.name} was ended by torchrun"
