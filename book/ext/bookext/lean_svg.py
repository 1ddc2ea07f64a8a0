"""A picture's text without what nobody sees: digits below a tenth of a pixel, words said again.

A trace of a training step is a thousand little boxes: each of them as ``M 1 2 V 3 H 4 V 2 z``, and
those of one colour as one path, takes a third of what the plotting library wrote.
"""

import re

FALLBACK = re.compile(r"var\((--p-[\w-]+), #[0-9a-f]{6}\)")  # the palette is on every page
PATH = re.compile(r'(?<=\sd=")[^"]*(?=")')
PIECE = re.compile(r"[A-Za-z]|-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")
NUMBERS = {"M": 2, "L": 2, "C": 6, "Q": 4, "Z": 0, "z": 0}  # of one command
GROUP = re.compile(r'(<g\b[^>]*>)((?:<path d="[^"]*" ?/>){2,})')
BOX = re.compile(r"M(\S+) (\S+)V(\S+)H(\S+)V\2z$")


def lean(svg: str) -> str:
    """The picture in fewer letters; it looks the same."""
    svg = PATH.sub(lambda found: path(found[0]), FALLBACK.sub(r"var(\1)", svg))
    return GROUP.sub(lambda found: found[1] + _together(found[1], found[2]), svg)


def path(d: str) -> str:
    """The data of a path with a tenth of a pixel, and H and V for lines along an axis."""
    pieces, out, at = PIECE.findall(d), [], None
    while pieces:
        command = pieces.pop(0)
        count = NUMBERS.get(command)
        if count is None or len(pieces) < count:
            return d  # commands that the plots have not: as it is
        numbers = [_short(number) for number in pieces[:count]]
        del pieces[:count]
        if command == "L" and at and numbers[1] == at[1]:
            out.append(f"H{numbers[0]}")
        elif command == "L" and at and numbers[0] == at[0]:
            out.append(f"V{numbers[1]}")
        else:
            out.append(command + " ".join(numbers))
        at = numbers[-2:] or None
    return "".join(out)


def _short(number: str) -> str:
    return f"{round(float(number), 1) + 0.0:g}"


def _together(group: str, paths: str) -> str:
    """One path for many boxes, if they are: what lies over another may look otherwise."""
    found = re.findall(r'd="([^"]*)"', paths)
    boxes = [BOX.match(one) for one in found]
    if "opacity" in group or not all(box and _upright(*box.groups()) for box in boxes):
        return paths
    return f'<path d="{"".join(found)}" />'


def _upright(x: str, y: str, bottom: str, right: str) -> bool:
    return float(bottom) >= float(y) and float(right) >= float(x)
