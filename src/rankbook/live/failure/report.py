"""What a reader is told of a failure: the cause first, then who suffered from it and where."""

import re
from collections.abc import Iterable

from rankbook.live.errors import CellFailed
from rankbook.live.failure.blame import Verdict, as_if_ended_by_agent
from rankbook.live.failure.ending import Raised, RankOutcome, who
from rankbook.symptoms import pointer

NATIVE_FILE = re.compile(r"^\[[^\]]*\.\w+:\d+\] *")  # gloo begins with the line of its source
LONG = 120  # characters of an exception's text that fit in a line beside others


def compose(verdict: Verdict, lines: Iterable[str]) -> CellFailed:
    """The whole report as an exception; its text is the first line.

    lines: what stands below the causes: on the other ranks, and what to do. The last line names
    the entry of the page Symptoms that fits.
    """
    causes = [line for group in _alike(verdict.causes) for line in _cause(group)]
    shown = [*causes, *([verdict.finding] if verdict.finding else []), *lines]
    # what the causes say; without one, what all the others do
    more = pointer("\n".join(causes or shown))
    return CellFailed(shown[0].split("\n")[0], "\n".join([*shown, *filter(None, [more])]))


def stopped(ending: RankOutcome, verdict: Verdict) -> str:
    """The line on a rank whose exception is a consequence of another's failure."""
    place = f" in {ending.place}" if ending.place else ""
    raised = ending.raised
    if raised is None or (raised.kind == "KeyboardInterrupt" and not raised.message):
        return f"{ending.name} stopped{place}"
    named = ", a consequence" if verdict.causes else ""
    return f"{ending.name} stopped{place}: {in_short(raised)}{named}"


def blocked(ending: RankOutcome) -> str:
    """The line on a rank that was got out of a call; its own words, if it had any, after that."""
    raised = ending.raised
    own = f", then raised {in_short(raised)}" if raised and not raised.inside else ""
    return f"{ending.name} was blocked in {ending.place}{own}"


def called(ending: RankOutcome) -> str:
    """The line on a rank where the ranks made different calls.

    How it ended is said only where that call killed it, not what the others' end did to it.
    """
    killed = (ending.code or 0) < 0 and ending.parted and not ending.raised
    died = f", and {ending.what}" if killed and not as_if_ended_by_agent(ending) else ""
    return f"{ending.name} called {ending.place}{died}"


def in_short(raised: Raised) -> str:
    """An exception in a line: ``RuntimeError: Connection closed by peer``."""
    line = NATIVE_FILE.sub("", raised.message.strip().split("\n")[0]).split(". ")[0]
    text = line if len(line) <= LONG else f"{line[: LONG - 3]}..."
    return f"{raised.kind}: {text}" if text else raised.kind


def _alike(causes: list[RankOutcome]) -> list[list[RankOutcome]]:
    """Ranks of one node that failed in the same way, on the same line; the gone stay apart."""
    groups: dict[tuple, list[RankOutcome]] = {}
    for e in causes:
        line = e.call.line if e.call else None
        detail = e.rank if e.gone else line if e.raised else e.place
        groups.setdefault((e.node, e.what, detail), []).append(e)
    return list(groups.values())


def _cause(group: list[RankOutcome]) -> list[str]:
    first = group[0]
    head = f"{who(group)} {first.what}"
    if first.gone:
        return [head, *filter(None, [first.crash])]
    if first.raised:
        return [head, *filter(None, [first.raised.traceback])]
    return [head + (f" ({first.place})" if first.place else "")]
