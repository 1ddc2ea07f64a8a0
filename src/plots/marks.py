"""What several figures share: round boxes, names at the ends of lines, a line of keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.transforms import ScaledTranslation

from plots.theme import INK, PAPER

RADIUS = 0.022  # inches, of every corner
SEAM = 0.8  # points: the paper between neighbouring boxes
Box = tuple[float, float, float, float]  # left, top, width, height, in the axes' units

WORD_LINE = 11.5  # points, from one line of words to the next


def rounded(
    axes: Axes, boxes: Iterable[Box], inch: tuple[float, float], **look: Any
) -> PathCollection:
    """Add boxes with round corners, all of one look, as one collection.

    inch: how many units of the axes are one inch, along each axis. Boxes too narrow for their
    corners stay rectangles.
    """
    look = {"edgecolor": PAPER, "lw": SEAM} | look
    collection = PathCollection([_round(box, inch) for box in boxes], **look)
    axes.add_collection(collection)
    return collection


def _round(box: Box, inch: tuple[float, float]) -> Path:
    left, top, width, height = box
    x, y = RADIUS * inch[0], RADIUS * inch[1]
    right, bottom = left + width, top + height
    if width < 4 * x:
        return Path([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)],
                    closed=True)  # fmt: skip
    corners = [
        ((left, top + y), (left, top), (left + x, top)),
        ((right - x, top), (right, top), (right, top + y)),
        ((right, bottom - y), (right, bottom), (right - x, bottom)),
        ((left + x, bottom), (left, bottom), (left, bottom - y)),
    ]
    points = [point for corner in corners for point in corner]
    kinds = [Path.LINETO, Path.CURVE3, Path.CURVE3] * 4
    return Path([*points, points[0]], [Path.MOVETO, *kinds[1:], Path.CLOSEPOLY])


def key(figure: Figure, looks: Mapping[str, Any], columns: int = 3) -> None:
    """A line of keys above the picture: word to a colour, or to what a `Patch` takes."""
    handles: list[Artist] = []
    for word, look in looks.items():
        if isinstance(look, Line2D):
            look.set_label(word)
            handles.append(look)
            continue
        given: dict[str, Any] = {"edgecolor": "none"}
        given.update(look if isinstance(look, Mapping) else {"facecolor": look})
        handles.append(Patch(label=word, **given))
    figure.legend(
        handles=handles, loc="outside upper left", ncols=columns, handlelength=0.9,
        handleheight=0.9, handletextpad=0.5, columnspacing=1.3, borderpad=0.1, borderaxespad=0.2,
        labelspacing=0.35,
    )  # fmt: skip


def beside(axes: Axes, x: float, y: float, words: str) -> None:
    """Write `words` to the right of a point, such as the end of a bar."""
    axes.annotate(words, (x, y), (5, 0), textcoords="offset points", va="center", color=INK,
                  annotation_clip=False)  # fmt: skip


def name_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], apart: float = 13.0) -> None:
    """Names right of the axes: of each line its last height, its words and its colour.

    Words keep `apart` points from one another; a small square in the line's colour stands before
    each, so that words that had to move are still known.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    height = axes.get_window_extent().height * 72 / figure.dpi
    transform = axes.transData + axes.transAxes.inverted()
    wanted = sorted(
        (float(transform.transform((axes.get_xlim()[1], value))[1]) * height, words, ground)
        for value, words, ground in ends
    )
    places = spread([place for place, _, _ in wanted], apart, height)
    axes.autoscale(False)
    shift = ScaledTranslation(9 / 72, 0, figure.dpi_scale_trans)
    for place, (_, words, ground) in zip(places, wanted, strict=True):
        axes.scatter(1, place / height, s=32, marker="s", color=ground, lw=0, clip_on=False,
                     transform=axes.transAxes + shift)  # fmt: skip
        axes.annotate(words, (1, place / height), (16, 0), xycoords="axes fraction", va="center",
                      textcoords="offset points", color=INK, annotation_clip=False)  # fmt: skip


def spread(places: Sequence[float], apart: float, height: float) -> list[float]:
    """The places in their order, moved to lie `apart` from one another, within 0 and `height`."""
    found: list[list[float]] = []  # blocks: [middle, count]
    for place in places:
        block = [place, 1.0]
        while found and found[-1][0] + (found[-1][1] + block[1]) / 2 * apart > block[0]:
            middle, count = found.pop()
            block = [(middle * count + block[0] * block[1]) / (count + block[1]), count + block[1]]
        low, high = block[1] * apart / 2, height - block[1] * apart / 2
        block[0] = max(min(block[0], high), low) if low < high else height / 2
        found.append(block)
    return [
        middle + (number - (count - 1) / 2) * apart
        for middle, count in found
        for number in range(int(count))
    ]


def word_lines(axes: Axes, place: tuple[float, float], words: str, **look: Any) -> None:
    """Each line as words of their own, so that in Chinese they stand in the middle, too."""
    lines = words.split("\n")
    for number, line in enumerate(lines):
        down = ((len(lines) - 1) / 2 - number) * WORD_LINE
        axes.annotate(line, place, (0, down), textcoords="offset points", va="center_baseline",
                      annotation_clip=False, **look)  # fmt: skip
