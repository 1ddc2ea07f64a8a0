"""The words of a failure report: the cause first, then who suffered from it and where.

All of its phrases are here, and once more in ``tests/unit/live/golden_reports.txt``. Other tests
make the lines they expect with these functions.
"""

import re
import signal
from collections.abc import Iterable

from rankbook.live.errors import CellFailed
from rankbook.live.failure import memory
from rankbook.live.failure.blame import Verdict, as_if_ended_by_agent
from rankbook.live.failure.ending import Raised, RankOutcome, who
from rankbook.live.screen.output import label
from rankbook.symptoms import pointer

INTERRUPTED = "The cell was interrupted."
MISMATCH = "collective mismatch: the ranks did not make the same call"
KEPT = [
    "The variables are kept; the next cell gets a new process group.",
    "Objects that hold the old one (DDP, FSDP, DeviceMesh) must be made again.",
]
KILLED = "killed by "  # and the signal's name
IGNORED = "it ignored the interrupt and was killed"  # how a rank is gone
UNKNOWN = "torchrun failed"
NATIVE_FILE = re.compile(r"^\[[^\]]*\.\w+:\d+\] *")  # gloo begins with the line of its source
LONG = 120  # characters of an exception's text that fit in a line beside others


def compose(verdict: Verdict, lines: Iterable[str]) -> CellFailed:
    """The whole report as an exception; its text is the first line.

    lines: what stands below the causes: on the other ranks, and what to do. The last line names
    the entry of the page Symptoms that fits.
    """
    causes = [line for group in _alike(verdict.causes) for line in cause(group)]
    shown = [*causes, *filter(None, [finding(verdict)]), *lines]
    # what the causes say; without one, what all the others do
    more = pointer("\n".join(causes or shown))
    whole = "\n".join([*shown, *filter(None, [more])])
    return CellFailed(shown[0].split("\n")[0], whole, verdict)


def cause(group: list[RankOutcome]) -> list[str]:
    """The lines on ranks that failed in the same way: what happened, then where it did."""
    first = group[0]
    head = f"{who(group)} {_what(first)}"
    if first.gone:
        return [head, *filter(None, [first.crash])]
    if first.raised:
        return [head, *filter(None, [first.raised.traceback])]
    return [head + (f" ({first.place})" if first.place else "")]


def finding(verdict: Verdict) -> str:
    """The line that stands below the causes, or where there are none; "" if they say all."""
    if verdict.interrupted:
        return INTERRUPTED
    if verdict.mismatch:
        return MISMATCH
    if verdict.early:
        place = verdict.waited[0].place
        where = f" in {place}" if place else ""
        return f"{left(verdict.early)} while {who(verdict.waited)} waited{where}"
    return f"{who(verdict.waited)} waited in vain for the other ranks" if verdict.waited else ""


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
    died = f", and {_what(ending)}" if killed and not as_if_ended_by_agent(ending) else ""
    return f"{ending.name} called {ending.place}{died}"


def left(done: list[RankOutcome]) -> str:
    """The line on ranks that came to the end: of a cell, or of a program, with an exit code."""
    how = "finished the cell" if done[0].code is None else exit_in_words(0)
    return f"{who(done)} had {how}"


def was_in(ending: RankOutcome) -> str:
    """The line on a worker that was ended with all others."""
    return f"{ending.name} was in {ending.place}"


def ended_by_agent(ending: RankOutcome) -> str:
    """The line on a worker that torchrun ended because another one failed."""
    if ending.place:
        return f"{was_in(ending)}; torchrun ended it"
    return f"{ending.name} was ended by torchrun"


def agent_killed(name: str, signum: int) -> str:
    """The line on an agent that a signal ended."""
    word = signal.Signals(signum).name
    return f"the agent of {name} was {KILLED}{word}; its workers ended with it"


def agent_failed(name: str, why: str) -> str:
    """The line on an agent that could not be started, or not be followed to its end."""
    return f"{name} failed: {why}"


def agent_left(name: str, code: int | None, said: list[str]) -> str:
    """The lines on an agent that ended badly though its workers ended well."""
    return "\n".join([f"{name} failed with exit code {code}; its last words:", *said])


def interrupted(seconds: float) -> str:
    """The line on a launch that the reader interrupted; it ended `seconds` later."""
    return f"interrupted; everything was ended {seconds:.1f} s later"


def absent(ranks: list[int]) -> str:
    """The line on ranks that were not asked to run the cell."""
    return f"{label(ranks)} did not run this cell"


def lost(dead: list[int], alive: list[int]) -> str:
    """What became of the variables, and what to do."""
    kept = f"; {label(alive)} kept theirs (%%ranks {alive[0]} still works)" if alive else ""
    return f"The variables of {label(dead)} are lost{kept}. Start afresh with: %ranks restart"


def process_ended(code: int) -> str:
    """How a rank is gone, of its exit code: ``it left with exit code 7``."""
    return f"it {exit_in_words(code)}" if code >= 0 else exit_in_words(code)


def exit_in_words(code: int) -> str:
    """``left with exit code 7`` or ``killed by SIGSEGV``, of a process's exit code.

    code: negative for the number of a signal, as of `subprocess.Popen.returncode`.
    """
    if code >= 0:
        return f"left with exit code {code}"
    name = signal.Signals(-code).name
    return f"{KILLED}{name}{memory.hint() if name == 'SIGKILL' else ''}"


def in_short(raised: Raised) -> str:
    """An exception in a line: ``RuntimeError: Connection closed by peer``."""
    line = NATIVE_FILE.sub("", raised.message.strip().split("\n")[0]).split(". ")[0]
    text = line if len(line) <= LONG else f"{line[: LONG - 3]}..."
    return f"{raised.kind}: {text}" if text else raised.kind


def _what(ending: RankOutcome) -> str:
    """The failure in words, to stand after the rank's name."""
    if ending.gone:
        return f"is gone: {ending.gone}"
    if ending.raised:
        text = f": {ending.raised.message}" if ending.raised.message else ""
        return f"raised {ending.raised.kind}{text}"
    if ending.code is None:
        return "ended"
    return f"was {exit_in_words(ending.code)}" if ending.code < 0 else exit_in_words(ending.code)


def _alike(causes: list[RankOutcome]) -> list[list[RankOutcome]]:
    """Ranks of one node that failed in the same way, on the same line; the gone stay apart."""
    groups: dict[tuple, list[RankOutcome]] = {}
    for e in causes:
        line = e.call.line if e.call else None
        detail = e.rank if e.gone else line if e.raised else e.place
        groups.setdefault((e.node, _what(e), detail), []).append(e)
    return list(groups.values())
