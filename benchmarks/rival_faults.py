"""Twelve faults of a cell on two ranks, and what of them a reader gets to see."""

import re
from dataclasses import dataclass

from rankbook.live.failure.report import INTERRUPTED, MISMATCH
from tests.live.report import GONE, HAD_FINISHED, NOT_COME

RANK = 1  # the rank at fault, where one is
# what makes a group, where a system leaves that to the reader: all have the same time-out
TIMEOUT = 10
NAMES = "import ctypes, datetime, os, sys, torch, torch.distributed as dist"
GROUP = f"{NAMES}\ndist.init_process_group('gloo', timeout=datetime.timedelta(seconds={TIMEOUT}))"
FIRST = f"{NAMES}\nrank = dist.get_rank(); t = torch.ones(2)"
# what a cell after the fault has to give: nothing of before is needed, the sum is 2 on each rank
NEXT = f"{NAMES}\nu = torch.ones(1); dist.all_reduce(u); out = f'sum={{int(u)}}'; print(out)"
SUM = re.compile(r"sum=(\d+)")

# how the systems call a rank: rank 1, [1], [1:execute], [stdout:1], [default1]:, {'gpus': 1/2}
LABEL = re.compile(
    r"\b[Rr]anks?[\s:=]+(\d)\b|\[rank(\d)\]|^\[(\d)\]|\[(?:stdout|stderr|output):(\d)\]|\[(\d):\w+\]"
    r"|\[default(\d)\]|local_rank: (\d)|\b[Ee]ngine\(?s?\)?[\s:]+(\d)|gpus['\"]?[=:] ?(\d)",
    re.MULTILINE,
)
# what a rank says that only suffered, and what a system says that does not know
VICTIM = re.compile(
    r"(RuntimeError|DistBackendError|DistNetworkError|DistStoreError|TimeoutError)[^\n]*"
    r"([Cc]onnection (closed|reset)|Timed out|timed out|[Tt]imeout|Broken pipe|Read error)"
    r"|Timeout waiting for responses|signal SIGTERM|Signals\.SIGTERM"
)
ERROR = re.compile(
    r"^\S*(Error|Exception|Failed)\b: ", re.MULTILINE
)  # anything else that is raised
NEAR = 120  # characters after a cause in which a rank may be named


@dataclass(frozen=True)
class Fault:
    """One cell. `cause` is a regular expression for the words of its cause; a line of the cell's
    own source in a traceback must not match it.

    ranked: rank 1 alone is at fault, and has to be named. interrupt: the reader stops the cell
    once "in it" was printed.
    """

    name: str
    code: str
    cause: str
    ranked: bool = True
    interrupt: bool = False


def _raises(name: str, statement: str, cause: str, after: str = "dist.all_reduce(t)") -> Fault:
    return Fault(name, f"if rank == 1: {statement}\n{after}", cause)


# The words of the systems, and of our own reports.
STOPPED = rf"Keyboard ?Interrupt|[Ii]nterrupted|SIGINT|signal: 2\b|{INTERRUPTED}"
DEATH = rf"exited|ended|died|\bdead\b|{GONE}|exit ?code"
DIFFER = rf"mismatch|not the same|differ|{MISMATCH}"
FAULTS = (
    _raises("ValueError", "raise ValueError('rank one is unhappy')",
            r"ValueError: rank one is unhappy"),
    _raises("ConnectionError", "raise ConnectionError('Connection reset by peer')",
            r"ConnectionError: Connection reset by peer", "dist.barrier()"),
    _raises("MemoryError", "raise MemoryError('no room for 64 GiB')",
            r"MemoryError: no room for 64 GiB"),
    _raises("SystemExit", "sys.exit('config is missing')",
            r"SystemExit\W+config is missing|exit ?code\W*1\b"),
    _raises("os._exit(0)", "os._exit(0)", DEATH),
    _raises("SIGKILL", "os.kill(os.getpid(), 9)",
            r"SIGKILL|[Ss]ignal 9|sig=9\b|exit ?code\W*-9|was killed"),
    _raises("segmentation fault", "ctypes.string_at(0)",
            r"SIGSEGV|[Ss]egmentation|[Ss]ignal 11|sig=11\b|exit ?code\W*-11"),
    Fault("two shapes", "dist.all_reduce(torch.ones(2 + 2 * rank))",
          rf"{DIFFER}|16 vs 8|8 vs 16", ranked=False),
    Fault("two orders", "calls = [dist.all_reduce, lambda x: dist.broadcast(x, 0)]\n"
          "for call in calls[::1 - 2 * rank]: call(torch.ones(1000))",
          rf"{DIFFER}|in all_reduce\([^\n]*\n[^\n]*in broadcast\(",
          ranked=False),
    Fault("rank 1 skips it", "if rank == 0: dist.all_reduce(t)",
          rf"finished|ended|had left|did not|never|without|is not in|not call"
          rf"|{HAD_FINISHED}|{NOT_COME}"),
    Fault("endless loop, stopped", "print('in it', flush=True)\nwhile True: pass",
          STOPPED, ranked=False, interrupt=True),
    Fault("recv and recv, stopped", "print('in it', flush=True)\ndist.recv(t, src=1 - rank)",
          STOPPED, ranked=False, interrupt=True),
)  # fmt: skip


def judge(fault: Fault, text: str, error: str) -> str:
    """What the reader sees: "right", "among others", "wrong" or "nothing".

    text: what was printed; error: what the cell raised ("" if nothing), which is the verdict of
    the system. among others: the cause is on the screen, but a victim stands first, or another
    cause is raised.
    """
    raised, printed = _blame(fault, error), _blame(fault, text)
    if raised == "nothing":
        return printed
    return "among others" if raised == "wrong" != printed != "nothing" else raised


def shown(fault: Fault, text: str, marks: list[tuple[float, int]]) -> float | None:
    """Seconds until the cause was on the screen; None if what was printed never had it.

    marks: seconds, and how long the text was then.
    """
    seen = (s for s, length in marks if _blame(fault, text[:length]) in ("right", "among others"))
    return next(seen, None)


def _blame(fault: Fault, said: str) -> str:
    causes = [
        found.start()
        for found in re.finditer(fault.cause, said, re.MULTILINE)
        if not fault.ranked or _ranks(said, found)
    ]
    victim = VICTIM.search(said)
    if not causes:
        return "wrong" if victim or ERROR.search(said) else "nothing"
    return "among others" if victim and victim.start() < causes[0] else "right"


def _ranks(said: str, cause: re.Match) -> bool:
    """Whether it is said of rank 1: named last before the cause, or right after it."""
    before = [_number(label) for label in LABEL.finditer(said, 0, cause.end())]
    after = LABEL.search(said, cause.end(), min(len(said), cause.end() + NEAR))
    return (before[-1:] == [RANK]) or bool(after and _number(after) == RANK)


def _number(label: re.Match) -> int:
    return int(next(group for group in label.groups() if group is not None))


def works(text: str) -> bool:
    """Whether the next cell gave the right sum, and no other."""
    return set(SUM.findall(text)) == {"2"}
