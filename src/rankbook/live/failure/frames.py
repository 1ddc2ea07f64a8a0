"""A rank's traceback as a reader needs it: the cell's frames whole, those of libraries in one line.

An error inside of torch passes through a dozen of its functions. Shown whole, they would push away
what the report says next: who was blocked, and where.
"""

import re
import sysconfig
from pathlib import Path

COLOUR = r"(?:\x1b\[[\d;]*m)*"
HEAD = re.compile(rf"{COLOUR}File {COLOUR}(.+?:\d+){COLOUR}, in {COLOUR}([^\x1b(]+)")
ARROW = re.compile(rf"^{COLOUR}-+> {COLOUR}\d+{COLOUR} *(.*)$", re.MULTILINE)
PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
STDLIB = re.compile(re.escape(sysconfig.get_path("stdlib")) + "/")
BOOK = re.compile(re.escape(str(Path(__file__).parents[3])) + "/")  # from a checkout
HIDDEN = re.compile(rf"\s*{COLOUR}\[\.\.\. skipping hidden \d+ frames?\]")  # a wrapper of ours
FIRST, LAST = 2, 3  # of many library frames in a row
DEEP = 100  # frames; of more, as an endless recursion leaves them, both ends are shown


def shorten(frames: list[str]) -> list[str]:
    """The frames of IPython's traceback, outermost first, with libraries' frames in a line each.

    The innermost frame keeps its line of code: it is what raised.
    """
    shown, run = [], []
    frames = [frame for frame in frames if not HIDDEN.match(frame)]
    for frame in frames:
        if line := _library(frame):
            run.append(line)
        else:
            shown += [*_fold(run), frame]
            run = []
    last = ARROW.search(frames[-1]) if run else None
    return [*shown, *_fold(run), *([f"    {last[1]}"] if last else [])]


def fold_deep(frames: list[str], depth: int) -> list[str]:
    """Both ends of a traceback that had `depth` frames; `frames` may already lack some between."""
    if depth <= DEEP:
        return frames
    hidden = depth - FIRST - LAST
    return [*frames[:FIRST], f"... {hidden} more ...", *frames[-LAST:]]


def _library(frame: str) -> str:
    """``torch/nn/modules/linear.py:134, in Linear.forward``; empty for a frame of the reader's."""
    head = HEAD.match(frame)
    if not head:
        return ""
    place = str(Path(head[1]).expanduser())
    for root in (PACKAGES, STDLIB, BOOK):
        if found := root.match(place):
            return f"{place[found.end() :]}, in {head[2].strip()}"
    return ""


def _fold(lines: list[str]) -> list[str]:
    hidden = len(lines) - FIRST - LAST
    if hidden < 2:
        return lines
    return [*lines[:FIRST], f"... {hidden} more ...", *lines[-LAST:]]
