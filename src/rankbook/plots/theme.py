"""One look for all figures: quiet axes, a few colours that differ also in grey, a white card."""

from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib import rcParams

from rankbook.plots.palette import RANKS, TONES

INK, QUIET, LINE = (TONES[name].light for name in ("ink", "quiet", "line"))
GROUND, PAPER, BAD, GOOD = (TONES[name].light for name in ("ground", "paper", "bad", "good"))
ON_DEEP, ON_PALE = TONES["on-deep"].light, TONES["on-pale"].light
COLORS = tuple(tone.light for tone in RANKS)

SETTINGS = {
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": TONES["grid"].light,
    "font.size": 9.5,
    "legend.frameon": False,
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
    """The colour for words on `background` (``"#rrggbb"``), whichever is easier to read on it."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return ON_PALE if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else ON_DEEP
