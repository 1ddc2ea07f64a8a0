"""What a drawn figure shows, measured on the figure itself."""

import re
from collections.abc import Collection, Iterator

from bookext.plots import plot
from matplotlib.figure import Figure
from matplotlib.text import Text

from rankbook.plots.theme import SMALLEST, WIDTH
from rankbook.plots.vector import _Drawing, svg

SIZE = re.compile(r"font-size: ([\d.]+)px")


def complaints(figure: Figure, given: Collection[str] = ()) -> Iterator[str]:
    """What is against the rules of all figures, a sentence each; nothing of the reader's own.

    given: names of a test's own, which have no translation.
    """
    if not isinstance(figure, _Drawing):
        return
    if figure.get_figwidth() > WIDTH:
        yield f"{figure.get_figwidth():.2f} inches wide, not {WIDTH}"
    text = svg(figure)
    for size in sorted({float(size) for size in SIZE.findall(text)}):
        if size < SMALLEST:
            yield f"a text of {size:g} points, below {SMALLEST:g}"
    if "<image" in text and len(text) < 60_000:
        yield "a bitmap in a small drawing"
    if shown(figure):
        yield from (f"outside of the figure: {words!r}" for words in texts_outside(figure))
    own = {f"no file of book/labels translates {name!r}" for name in given}
    for language in ("en", "zh"):
        _, wrong = plot(text, language, "plot", "words")
        yield from (sentence for sentence in wrong if sentence not in own)


def shown(figure: Figure) -> list[Text]:
    """The words that the figure shows.

    Not those of ticks: matplotlib keeps some that lie outside of their axis, and leaves them out.
    """
    ticks = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in axis.get_ticklabels(which="both")
    }
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text() and text not in ticks
    ]


def texts_outside(figure: Figure) -> list[str]:
    """Draw `figure`; return the words that do not lie on it whole, to a pixel."""
    figure.canvas.draw()
    paper = figure.bbox.padded(1)
    assert shown(figure), "a figure without a word"
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown(figure)]
    return [
        words
        for words, box in boxes
        if box.x0 < paper.x0 or box.y0 < paper.y0 or box.x1 > paper.x1 or box.y1 > paper.y1
    ]
