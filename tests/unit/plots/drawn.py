"""The rules of all figures, measured on the figure itself: what CONTRIBUTING says of plots."""

import re
from collections.abc import Collection, Iterator

from bookext.plots import plot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from plots.theme import SMALLEST, WIDTH
from plots.vector import _Drawing, svg

SIZE = re.compile(r"font-size: ([\d.]+)px")
POINTS = 72  # units of an SVG in an inch
NUMBER = re.compile(r"[−-]?\d[\d.,]*|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|[\d.,]+%")
UNFILLED = re.compile(r"\{\w*\}|\b(?:None|nan)\b|\w*<\w+ object")


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
    yield from _of_words(figure)
    yield from _of_axes(figure)
    own = {f"no file of book/labels translates {name!r}" for name in given}
    for language in ("en", "zh"):
        _, wrong = plot(text, language, "plot", "words")
        yield from (sentence for sentence in wrong if sentence not in own)


def _of_words(figure: Figure) -> Iterator[str]:
    words = shown(figure)
    if not words:
        yield "a figure without a word"
    yield from (f"outside of the figure: {each!r}" for each in _outside(figure, words))
    for each in words:
        if UNFILLED.search(each.get_text()):
            yield f"no word for a reader: {each.get_text()!r}"
    for legend in _legends(figure):
        names = [text.get_text().strip() for text in legend.get_texts()]
        if not all(names) or len(set(names)) < len(names):
            yield f"a legend that does not tell its parts apart: {names}"


def _of_axes(figure: Figure) -> Iterator[str]:
    """Where numbers stand along an axis, some words say what they count, once for all panels."""
    of_all = {"x": figure.get_supxlabel(), "y": figure.get_supylabel()}
    for name in ("x", "y"):
        here = [axes for axes in figure.axes if _numbered(axes, name)]
        names = [of_all[name], *(_name(axes, name) for axes in here)]
        if here and not any(names):
            yield f"no word says what the {name} axis counts"


def _numbered(axes: Axes, name: str) -> bool:
    """Is it a scale? Cells without a line below them have names of their own, if numbers."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    if not (axes.get_visible() and axes.axison and axis.get_visible()):
        return False
    if name == "x" and not axes.spines["bottom"].get_visible():
        return False
    return any(
        tick.get_visible() and NUMBER.fullmatch(tick.get_text().strip())
        for tick in axis.get_ticklabels()
    )


def _name(axes: Axes, name: str) -> str:
    """What the axis is called; the upright one is, as a rule, by the words above it."""
    if name == "x":
        return axes.get_xlabel()
    return axes.get_ylabel() + "".join(map(axes.get_title, ("left", "center", "right")))


def _legends(figure: Figure) -> list[Legend]:
    own = [axes.get_legend() for axes in figure.axes]
    return [*figure.legends, *(legend for legend in own if legend)]


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


def _outside(figure: Figure, words: list[Text]) -> list[str]:
    """Those of `words` that do not lie on the figure whole, to a unit, as `svg` has just drawn it.

    An SVG is drawn at 72 dots an inch, and where its words stand is noted in dots.
    """
    before = figure.dpi
    figure.dpi = POINTS
    paper = figure.bbox.padded(1)
    boxes = [(text.get_text(), text.get_window_extent()) for text in words]
    figure.dpi = before
    return [
        words
        for words, box in boxes
        if box.x0 < paper.x0 or box.y0 < paper.y0 or box.x1 > paper.x1 or box.y1 > paper.y1
    ]
