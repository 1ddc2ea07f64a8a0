"""Figures of the book are shown as drawings whose words are text, not as bitmaps."""

import io
from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure

from plots.palette import TONES

# Words stay words, so that a page can translate them; the same figure is the same file.
PLAIN = {"svg.fonttype": "none", "svg.hashsalt": "rankbook"}
SILENT = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class _Drawing(Figure):
    """A figure that a notebook shows as ``image/svg+xml``; all others stay as the reader set them.

    It is shown as it was drawn, without the inline backend's cutting of margins: on one page,
    figures of one width have words of one size.
    """

    def _ipython_display_(self, **options: Any) -> None:
        from IPython.display import display

        display(bundle(self), raw=True, **options)


def bundle(figure: Figure) -> dict[str, str]:
    """What a notebook shows of `figure`: the drawing, and words where there is no screen."""
    return {"image/svg+xml": svg(figure), "text/plain": repr(figure)}


def svg(figure: Figure) -> str:
    """The figure as the text of an SVG file.

    It stands on paper, as a notebook may be dark; a page of the book, which has colours for the
    dark, takes the paper away.
    """
    before = {name: rcParams[name] for name in PLAIN}
    rcParams.update(PLAIN)
    file = io.StringIO()
    try:
        figure.savefig(file, format="svg", metadata=SILENT, facecolor=TONES["paper"].light)
    finally:
        rcParams.update(before)
    return file.getvalue()


def vector(figure: Figure) -> None:
    """Make a figure that pyplot has just opened a drawing; `style` has pyplot call it."""
    figure.__class__ = _Drawing
