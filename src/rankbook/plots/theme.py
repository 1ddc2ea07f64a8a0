"""One look for all figures: quiet axes, a few colours that differ also in grey, a white card."""

from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib import rcParams

INK, QUIET = "#2b3036", "#8a939c"
# Of one lightness step after the other, so that they differ without colour, too.
COLORS = ("#1f5f85", "#e08a3c", "#7fb8d6", "#a3491a", "#4f8a5b", "#b9a44c", "#6d5a94", "#c9ced4")

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
    "grid.color": "#e4e7ea",
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
    """White or dark, whichever is easier to read on `background` (``"#rrggbb"``)."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
