"""A picture's text in fewer letters: lines along an axis, and colours that the page has.

A trace of a training step is a thousand little boxes, each of them ``M1 2V3H4V2z``.
"""

import re

FALLBACK = re.compile(r"var\((--p-[\w-]+), #[0-9a-f]{6}\)")  # the palette is on every page
PATH = re.compile(r'(?<=\sd=")[^"]*(?=")')
PIECE = re.compile(r"[A-Za-z]|-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")
NUMBERS = {"M": 2, "L": 2, "C": 6, "Q": 4, "Z": 0, "z": 0}  # of one command


def lean(svg: str) -> str:
    """The picture in fewer letters; it looks the same."""
    return PATH.sub(lambda found: path(found[0]), FALLBACK.sub(r"var(\1)", svg))


def path(d: str) -> str:
    """The data of a path, with H and V for lines along an axis."""
    pieces, out, at = PIECE.findall(d), [], None
    while pieces:
        command = pieces.pop(0)
        count = NUMBERS.get(command)
        if count is None or len(pieces) < count:
            return d  # commands that the plots have not: as it is
        numbers = pieces[:count]
        del pieces[:count]
        if command == "L" and at and numbers[1] == at[1]:
            out.append(f"H{numbers[0]}")
        elif command == "L" and at and numbers[0] == at[0]:
            out.append(f"V{numbers[1]}")
        else:
            out.append(command + " ".join(numbers))
        at = numbers[-2:] or None
    return "".join(out)
