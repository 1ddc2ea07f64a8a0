"""A picture: its size, what has been placed on it, and the file it becomes."""

import drawsvg

from diagrams.kit import checks
from diagrams.kit.geometry import UNIT, Box
from diagrams.kit.marks import Marks
from diagrams.kit.messages import Messages
from diagrams.kit.shapes import Shapes
from diagrams.kit.words import LEADING, SIZE, Saying, lines, runs, width
from plots.theme import BAD, GOOD, GROUND, INK, LINE, PAPER, QUIET, color

FAMILY = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'PingFang SC', 'Microsoft YaHei', "
    "'Noto Sans CJK SC', sans-serif"
)
CODE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TONES = {"ink": INK, "quiet": QUIET, "line": LINE, "ground": GROUND, "bad": BAD, "good": GOOD}
LAYERS = ("ground", "lines", "things", "words")  # what is drawn before what


class Picture(Shapes, Marks, Messages):
    """A drawing in one language, ``width`` by ``height`` units of 10 CSS pixels."""

    def __init__(self, language: str, width: float, height: float) -> None:
        self.language = language
        self.all = Box(0, 0, width * UNIT, height * UNIT, "the picture")
        self.layers = {name: [] for name in LAYERS}
        self.things: list[Box] = []  # what nothing may cover
        self.texts: list[tuple[Box, Box | None]] = []  # words, and the thing they stand in
        self.marks: list[Box] = []  # what no words may cover
        self.ways: list[list[tuple[float, float]]] = []  # the corners of each arrow

    def tone(self, of: int | str | None) -> str:
        """The colour of a rank (a number), of a tone of the palette, or the quiet one."""
        return color(of) if isinstance(of, int) else TONES[of or "quiet"]

    def add(self, layer: str, *elements: drawsvg.DrawingElement) -> None:
        """Draw elements of drawsvg; the description itself rarely needs to."""
        self.layers[layer].extend(elements)

    def words(
        self,
        x: float,
        y: float,
        said: str | Saying,
        *,
        align: str = "middle",
        tone: int | str = "ink",
        bold: bool = False,
    ) -> Box:
        """Words in free space; ``y`` (in units) is the middle of their height."""
        at = (x * UNIT, y * UNIT)
        return self.write(lines(said, self.language), at, align, self.tone(tone), bold)

    def write(
        self,
        texts: list[str],
        at: tuple[float, float],
        align: str,
        tone: str,
        bold: bool = False,
        inside: Box | None = None,
    ) -> Box:
        """Lines of words around the pixel ``at``; remembers the room they take."""
        x, middle = at
        widest = 0.0
        top = middle - LEADING * (len(texts) - 1) / 2
        for number, text in enumerate(texts):
            pieces = runs(text, bold)
            widest = max(widest, width(pieces, self.language))
            self.add("words", self._line(pieces, x, top + number * LEADING + 5, align, tone))
        left = x - widest * {"start": 0, "middle": 0.5, "end": 1}[align]
        room = Box(left, top - 8, widest, LEADING * (len(texts) - 1) + 16, " / ".join(texts))
        self.texts.append((room, inside))
        return room

    def _line(self, pieces, x, baseline, align, tone) -> drawsvg.Text:
        line = drawsvg.Text(
            [], SIZE, x=round(x, 1), y=round(baseline, 1), fill=tone, text_anchor=align
        )
        for text, type in pieces:
            how = {
                "plain": {},
                "bold": {"font_weight": 600},
                "code": {"font_family": CODE, "font_size": 13.5, "class": "code"},
            }[type]
            line.append(drawsvg.TSpan(text, **how))
        return line

    def svg(self) -> str:
        """The file's text. Raises `Misdrawn` if something does not fit."""
        checks.check(self)
        drawing = drawsvg.Drawing(self.all.w, self.all.h)
        # The backdrop keeps an image readable on a dark ground; within a page it is not shown.
        drawing.append(
            drawsvg.Rectangle(0, 0, self.all.w, self.all.h, rx=6, fill=PAPER, class_="backdrop")
        )
        group = drawsvg.Group(font_family=FAMILY)
        for layer in LAYERS:
            group.extend(self.layers[layer])
        drawing.append(group)
        return drawing.as_svg() + "\n"
