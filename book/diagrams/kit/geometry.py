"""Rectangles, places at their borders, and the ways of arrows between them; in CSS pixels."""

from dataclasses import dataclass

UNIT = 10
GAP = 3  # between a border and the arrow that ends there


class Misdrawn(ValueError):
    """A picture whose words do not fit, or whose things cover each other."""


@dataclass(frozen=True)
class Port:
    """A place at a border: ``side`` says to where an arrow leaves it."""

    x: float
    y: float
    side: str

    @property
    def outside(self) -> tuple[float, float]:
        """Where an arrow begins or ends: a little off the border."""
        dx, dy = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}[self.side]
        return self.x + GAP * dx, self.y + GAP * dy


@dataclass(frozen=True)
class Box:
    """A rectangle; what is drawn in it has its name for messages."""

    x: float
    y: float
    w: float
    h: float
    name: str = ""

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    def port(self, side: str, share: float = 0.5) -> Port:
        """The place at ``share`` of a side: ``box.port("bottom", 0.25)``."""
        if side in ("top", "bottom"):
            return Port(self.x + share * self.w, self.y if side == "top" else self.bottom, side)
        return Port(self.x if side == "left" else self.right, self.y + share * self.h, side)

    def overlaps(self, other: "Box", gap: float = 0) -> bool:
        """Whether the two have area in common, or are closer than ``gap``."""
        return (
            self.x < other.right + gap
            and other.x < self.right + gap
            and self.y < other.bottom + gap
            and other.y < self.bottom + gap
        )

    def holds(self, other: "Box", margin: float = 0) -> bool:
        """Whether ``other`` lies within, ``margin`` off every border."""
        return (
            self.x + margin <= other.x
            and other.right <= self.right - margin
            and self.y + margin <= other.y
            and other.bottom <= self.bottom - margin
        )

    def shrunk(self, by: float) -> "Box":
        return Box(self.x + by, self.y + by, self.w - 2 * by, self.h - 2 * by, self.name)

    def crossed_by(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Whether the straight line from ``start`` to ``end`` goes through (Liang and Barsky)."""
        (x0, y0), (x1, y1) = start, end
        first, last = 0.0, 1.0
        for step, low, high in (
            (x1 - x0, self.x - x0, self.right - x0),
            (y1 - y0, self.y - y0, self.bottom - y0),
        ):
            if step == 0:
                if low >= 0 or high <= 0:
                    return False
                continue
            near, far = sorted((low / step, high / step))
            first, last = max(first, near), min(last, far)
        return first < last


def ports(start: Box | Port, end: Box | Port, across: bool) -> tuple[Port, Port]:
    """Where an arrow leaves ``start`` and reaches ``end``: straight if it can be."""
    if isinstance(start, Port) and isinstance(end, Port):
        return start, end
    if isinstance(start, Port):
        return start, _facing(start, end)
    if isinstance(end, Port):
        return _facing(end, start), end
    low, high = max(start.x, end.x), min(start.right, end.right)
    top, foot = max(start.y, end.y), min(start.bottom, end.bottom)
    if high > low and not (foot > top):
        below = end.y >= start.bottom
        x = _straight(low, high, (start.x, start.w), (end.x, end.w))
        return (
            Port(x, start.bottom if below else start.y, "bottom" if below else "top"),
            Port(x, end.y if below else end.bottom, "top" if below else "bottom"),
        )
    after = end.x >= start.right
    if foot > top:
        y = _straight(top, foot, (start.y, start.h), (end.y, end.h))
        return (
            Port(start.right if after else start.x, y, "right" if after else "left"),
            Port(end.x if after else end.right, y, "left" if after else "right"),
        )
    if across:
        return start.port("right" if after else "left"), end.port("left" if after else "right")
    below = end.y >= start.bottom
    return start.port("bottom" if below else "top"), end.port("top" if below else "bottom")


def _straight(low: float, high: float, *spans: tuple[float, float]) -> float:
    """Where a straight arrow runs: through the middle of the shorter side, or what both share."""
    begin, length = min(spans, key=lambda span: span[1])
    middle = begin + length / 2
    return middle if low <= middle <= high else (low + high) / 2


def _facing(port: Port, box: Box) -> Port:
    """The place of ``box`` that looks at ``port``, straight ahead of it if possible."""
    opposite = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}[port.side]
    if port.side in ("top", "bottom"):
        x = port.x if box.x < port.x < box.right else box.x + box.w / 2
        return Port(x, box.y if opposite == "top" else box.bottom, opposite)
    y = port.y if box.y < port.y < box.bottom else box.y + box.h / 2
    return Port(box.x if opposite == "left" else box.right, y, opposite)


def way(start: Port, end: Port) -> list[tuple[float, float]]:
    """The corners of an arrow, at right angles: straight, one corner, or two."""
    (x0, y0), (x1, y1) = start.outside, end.outside
    if x0 == x1 or y0 == y1:
        return [(x0, y0), (x1, y1)]
    up, also_up = (port.side in ("top", "bottom") for port in (start, end))
    if up and also_up:
        middle = (y0 + y1) / 2
        return [(x0, y0), (x0, middle), (x1, middle), (x1, y1)]
    if not up and not also_up:
        middle = (x0 + x1) / 2
        return [(x0, y0), (middle, y0), (middle, y1), (x1, y1)]
    return [(x0, y0), (x0, y1) if up else (x1, y0), (x1, y1)]
