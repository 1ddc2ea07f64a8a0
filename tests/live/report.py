"""The lines that tests expect in a failure report, made by the functions that write them.

So the words stand in no test but the golden file, ``tests/unit/live/golden_reports.txt``. A test
that knows only how a line begins leaves the number of the cell's line away, or ends a text in
"...": the line stops there.
"""

import re
from collections.abc import Iterable

from rankbook.live.errors import CellFailed
from rankbook.live.failure import hang
from rankbook.live.failure import report as words
from rankbook.live.failure.blame import Verdict
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome

END = "\0"  # where a line stops


def fails(line: str) -> str:
    """How a cell's error begins whose report begins with `line`."""
    return f"{CellFailed.__name__}: {line}"


def raised(ranks: int | Iterable[int], text: str, node: str = "") -> str:
    """text: ``ValueError: boom``, or a part that it begins with."""
    all_ranks = [ranks] if isinstance(ranks, int) else ranks
    group = [RankOutcome(rank, node, raised=_exception(text)) for rank in all_ranks]
    return _cut(words.cause(group)[0])


def gone(rank: int, how: str) -> str:
    """A rank whose process is no longer there."""
    return words.cause([RankOutcome(rank, gone=how)])[0]


def died(code: int) -> str:
    """How a process ended, without a word on the machine's memory."""
    return words.process_ended(code).partition(" (")[0]


def exited(rank: int, code: int, call: str = "", line: int | None = None) -> str:
    """A worker of a launch that did not raise, and where it was, if that is known."""
    if line:
        return words.cause([_at(rank, call, line, code=code)])[0]
    return words.cause([RankOutcome(rank, code=code)])[0].partition(" (")[0]


def blocked(rank: int, call: str, line: int | None = None, then: str = "") -> str:
    """then: what it raised of its own, got out of the call."""
    return _cut(words.blocked(_at(rank, call, line, raised=_exception(then) if then else None)))


def stopped(rank: int, call: str, line: int | None = None, text: str = "") -> str:
    """text: what it raised, where that says no more than that others failed."""
    raised = _exception(text) if text else None
    return _cut(words.stopped(_at(rank, call, line, raised=raised), Verdict()))


def called(rank: int, call: str, line: int | None = None, code: int | None = None) -> str:
    """code: of a process that the call killed."""
    return _cut(words.called(_at(rank, call, line, code=code, parted=True)))


def was_in(rank: int, call: str, line: int | None = None) -> str:
    """A worker when the launch was interrupted."""
    return _cut(words.was_in(_at(rank, call, line)))


def ended_by_agent(rank: int, call: str, line: int) -> str:
    """A worker that torchrun ended."""
    return words.ended_by_agent(_at(rank, call, line))


def had_left(rank: int) -> str:
    """A worker whose program came to its end."""
    return words.left([RankOutcome(rank, code=0)])


def left_waiting(early: int, waited: int, call: str, line: int, code: int | None = None) -> str:
    """A rank that came to the end while another one waited for it. code: of a worker, 0."""
    done = RankOutcome(early, code=code, finished=True)
    return words.finding(Verdict(waited=[_at(waited, call, line)], early=[done]))


def still_waits(rank: str, call: str, line: int | None = None) -> str:
    """While a hang lasts: a rank, by its label, that waits for others."""
    return _cut(hang.still_waits(rank, _call(call, line)))


def not_come(rank: str, call: str, line: int | None = None) -> str:
    """While a hang lasts: a rank that others wait for."""
    return _cut(hang.absent(rank, _call(call, line))[0])


def goes_on(rank: int, failed: int, call: str, line: int | None = None) -> str:
    """A rank that waits for nobody when another one has failed."""
    return _cut(hang.goes_on(rank, failed, _call(call, line)))


def went_on(text: str) -> list[str]:
    """Where ranks were that `text` says went on."""
    begin = re.sub(r"\d", r"\\d", re.escape(goes_on(0, 1, "")))  # whichever ranks
    return re.findall(f"{begin}(.*)", text)


def phrase(line: str) -> str:
    """What `line` says of rank 0, without its name."""
    return line.removeprefix("rank 0 ")


def _exception(text: str) -> Raised:
    kind, _, message = text.removesuffix("...").partition(": ")
    return Raised(kind, message + (END if text.endswith("...") else ""))


def _call(text: str, line: int | None) -> Call:
    return Call(None, text, line) if line else Call(None, text + END, 1)


def _at(rank: int, call: str, line: int | None, **known) -> RankOutcome:
    return RankOutcome(rank, call=_call(call, line), **known)


def _cut(line: str) -> str:
    return line.partition(END)[0]


# Parts of lines.
BLOCKED = phrase(blocked(0, ""))
GONE = phrase(gone(0, END)).removesuffix(f": {END}")
HALTED = words.interrupted(0.0).partition("0.0")[0]
NOT_COME = not_come("", "").strip()
STILL_WAITS = still_waits("", "")
THEN = blocked(0, "f", 1, "E").removeprefix(blocked(0, "f", 1)).removesuffix("E")
_FAILED = RankOutcome(0, raised=Raised("E", ""))
CONSEQUENCE = words.stopped(_FAILED, Verdict([_FAILED])).removeprefix(
    words.stopped(_FAILED, Verdict())
)
HAD_FINISHED = phrase(words.left([_FAILED]))
IN_VAIN = phrase(words.finding(Verdict(waited=[_FAILED])))
