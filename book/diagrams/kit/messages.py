"""Arrows: at right angles, from border to border, their words beside them."""

from itertools import pairwise
from math import dist

import drawsvg

from diagrams.kit.geometry import UNIT, Box, Port, ports, way
from diagrams.kit.words import lines

HEAD, HALF, BEND = 8, 4, 6
SIDES = {"right": (9, "start"), "left": (-9, "end")}


class Messages:
    """The arrows of a `Picture`."""

    def message(
        self,
        start: Box | Port,
        end: Box | Port,
        *words,
        rank: int | str | None = None,
        side: str = "",
        share: float = 0.5,
        dashed: bool = False,
        both: bool = False,
        across: bool = False,
        head: bool = True,
        via: tuple[tuple[float, float], ...] = (),
    ) -> None:
        """An arrow in its sender's colour (``rank``, or a tone: "bad"), straight if it can be.

        words: beside the arrow, at ``share`` of its longest piece: right or left, above or below.
        dashed: what does not come, or is only asked. both: a head at either end. across: of two
        ways with corners, the one that leaves to the side. via: corners of your own, in units.
        """
        first, last = ports(start, end, across)
        corners = way(first, last)
        if via:
            corners = [first.outside, *((x * UNIT, y * UNIT) for x, y in via), last.outside]
        tone = self.tone(rank)
        self.ways.append(corners)
        trimmed = list(corners)
        if head:
            trimmed[-1] = _towards(corners[-1], corners[-2], HEAD - 1)
            self.add("lines", _head(corners[-1], corners[-2], tone))
        if both:
            trimmed[0] = _towards(corners[0], corners[1], HEAD - 1)
            self.add("lines", _head(corners[0], corners[1], tone))
        dashes = {"stroke_dasharray": "5 4"} if dashed else {}
        self.add("lines", _line(trimmed, fill="none", stroke=tone, stroke_width=1.5, **dashes))
        if words:
            self._beside(corners, words, side, share, self.tone(rank if rank == "bad" else "quiet"))

    def _beside(self, corners, words, side, share, tone) -> None:
        """Write the words beside the longest piece of the arrow."""
        (x0, y0), (x1, y1) = max(pairwise(corners), key=lambda piece: dist(*piece))
        x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        texts = [line for said in words for line in lines(said, self.language)]
        if side in SIDES or (not side and x0 == x1):
            away, align = SIDES[side or "right"]
            self.write(texts, (x + away, y), align, tone)
        else:
            height = 20 * (len(texts) - 1) / 2 + 13
            y += height if side == "below" else -height
            self.write(texts, (x, y), "middle", tone)


def _towards(start, end, length) -> tuple[float, float]:
    """The point ``length`` away from ``start`` on the way to ``end``."""
    share = length / dist(start, end)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _head(tip, before, tone) -> drawsvg.Path:
    """A slim triangle whose tip is where the arrow ends."""
    x, y = _towards(tip, before, HEAD)
    dx, dy = ((tip[1] - y) * HALF / HEAD, (x - tip[0]) * HALF / HEAD)
    path = drawsvg.Path(fill=tone)
    corners = (tip, (x + dx, y + dy), (x - dx, y - dy))
    (start, *rest) = [(round(px, 1), round(py, 1)) for px, py in corners]
    path.M(*start)
    for corner in rest:
        path.L(*corner)
    return path.Z()


def _line(corners, **look) -> drawsvg.Path:
    """A line through the corners, rounded at each."""
    path = drawsvg.Path(**look)
    path.M(*_round(corners[0]))
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        bend = min(BEND, dist(before, corner) / 2, dist(corner, after) / 2)
        path.L(*_round(_towards(corner, before, bend)))
        path.Q(*_round(corner), *_round(_towards(corner, after, bend)))
    return path.L(*_round(corners[-1]))


def _round(point) -> tuple[float, float]:
    return round(point[0], 1), round(point[1], 1)
