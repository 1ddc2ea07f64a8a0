"""What no picture may do: words that do not fit, things on one another."""

from itertools import combinations, pairwise
from math import dist

from diagrams.kit.geometry import Box, Misdrawn

WIDEST = 460
APART = 3  # pixels between two things, at least


def check(picture) -> None:
    """Raise `Misdrawn` with everything that is wrong in ``picture``."""
    wrong = [*_size(picture), *_things(picture), *_words(picture), *_arrows(picture)]
    if wrong:
        raise Misdrawn("\n".join(f"[{picture.language}] {line}" for line in wrong))


def _size(picture):
    if picture.all.w > WIDEST:
        yield f"the picture is {picture.all.w:g} wide; {WIDEST} is the most a phone can show"
    rooms = picture.things + [room for room, _ in picture.texts]
    corners = [Box(x, y, 0, 0, "an arrow") for way in picture.ways for x, y in way]
    for room in rooms + corners:
        if not picture.all.holds(room, 1):
            yield f"“{room.name}” leaves the picture: {_sides(room)} in {_sides(picture.all)}"


def _things(picture):
    for one, other in combinations(picture.things, 2):
        nested = one.holds(other, APART) or other.holds(one, APART)
        if one.overlaps(other, gap=1) and not nested:
            yield f"“{one.name}” ({_sides(one)}) and “{other.name}” ({_sides(other)}) overlap"


def _words(picture):
    for room, inside in picture.texts:
        if inside and not inside.holds(room):
            yield (
                f"“{room.name}” needs {room.w:.0f} by {room.h:.0f}; "
                f"its place has {inside.w:.0f} by {inside.h:.0f}"
            )
        for thing in picture.things:
            if inside is None and room.overlaps(thing) and not thing.holds(room):
                yield f"“{room.name}” ({_sides(room)}) lies on “{thing.name}” ({_sides(thing)})"
        if any(room.overlaps(mark) for mark in picture.marks):
            yield f"“{room.name}” ({_sides(room)}) lies on a mark"
    for (one, _), (other, _) in combinations(picture.texts, 2):
        if one.overlaps(other):
            yield f"“{one.name}” and “{other.name}” overlap: {_sides(one)}, {_sides(other)}"


def _arrows(picture):
    for corners in picture.ways:
        pieces = list(pairwise(corners))
        for room, _ in picture.texts:
            if any(room.shrunk(-APART).crossed_by(*piece) for piece in pieces):
                yield f"an arrow goes through, or too near to, the words “{room.name}”: {corners}"
        if len(pieces) > 2 and any(dist(*piece) < 2 * APART for piece in pieces[1:-1]):
            yield f"an arrow has a kink nobody can see the reason of: {corners}"
        for thing in picture.things:
            ends = (corners[0], corners[-1])
            within = any(thing.holds(Box(x, y, 0, 0)) for x, y in ends)
            if not within and any(thing.shrunk(1).crossed_by(*piece) for piece in pieces):
                yield f"an arrow goes through “{thing.name}”: {corners}"


def _sides(box: Box) -> str:
    return f"x {box.x:.0f} to {box.right:.0f}, y {box.y:.0f} to {box.bottom:.0f}"
