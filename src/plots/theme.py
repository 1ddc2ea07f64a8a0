"""One look for all figures: quiet axes, a few colours that differ also in grey, no ground.

A figure is at most `WIDTH` wide and its words are at least `SMALLEST`: on a phone, a column of 328
pixels leaves them larger than 9. Names and values stand beside what they name, in its colour.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import log10

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from plots.palette import RANKS, TONES
from plots.vector import vector

INK, QUIET, LINE, GRID = (TONES[name].light for name in ("ink", "quiet", "line", "grid"))
GROUND, PAPER, BAD, GOOD = (TONES[name].light for name in ("ground", "paper", "bad", "good"))
ON_DEEP, ON_PALE = TONES["on-deep"].light, TONES["on-pale"].light
FOLLOWING = {GROUND, PAPER, LINE, GRID}
COLORS = tuple(tone.light for tone in RANKS)

WIDTH = 5.0  # inches, of a figure: 360 units of its drawing
SMALLEST = 10.0  # points, of a word

SETTINGS = {
    "figure.dpi": 120,
    "figure.figsize": (WIDTH, 2.8),
    "figure.facecolor": "none",
    "figure.hooks": [f"{vector.__module__}:{vector.__name__}"],
    "figure.titlesize": 11,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.03,
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": LINE,
    "axes.linewidth": 1.0,
    "axes.labelcolor": QUIET,
    "axes.labelsize": SMALLEST,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 10.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": SMALLEST,
    "ytick.labelsize": SMALLEST,
    "xtick.major.size": 3,
    "xtick.major.width": 1.0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "grid.color": GRID,
    "grid.linewidth": 1.0,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "hatch.color": QUIET,
    "hatch.linewidth": 0.8,
    "patch.linewidth": 0,
    "font.size": SMALLEST,
    "legend.fontsize": SMALLEST,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.4,
}


@contextmanager
def style() -> Iterator[None]:
    """The settings of all figures of the book: ``with style(): ...``.

    Only these settings are put back. matplotlib's own `rc_context` would undo more: a notebook
    turns figures on while the first one is made.
    """
    before = {name: rcParams[name] for name in SETTINGS}
    rcParams.update(SETTINGS)
    try:
        yield
    finally:
        rcParams.update(before)


def color(number: int) -> str:
    """The colour of the rank or chunk `number`; after eight, they come again."""
    return COLORS[number % len(COLORS)]


def ink_on(background: str) -> str:
    """The colour for words on `background` (``"#rrggbb"``), whichever is easier to read on it.

    Grounds that turn dark with the page (`GROUND`, `PAPER`, `LINE`, `GRID`) take the page's ink.
    """
    if background in FOLLOWING:
        return INK
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return ON_PALE if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else ON_DEEP


def powers(axis: Axis) -> None:
    """Number a logarithmic axis with powers of ten as plain text: 10⁻³."""
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axis.set_major_formatter(lambda value, _: f"10{str(round(log10(value))).translate(digits)}")


def unit(axes: Axes, words: str) -> None:
    """Name what the upright axis counts, above it and lying: ``milliseconds``."""
    axes.set_title(words, loc="left", size=SMALLEST, color=QUIET)
