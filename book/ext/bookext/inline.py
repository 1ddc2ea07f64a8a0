"""SVG pictures within a page: colours from the palette, so that they follow the page's mode."""

import re
from html import escape

from plots.palette import VARIABLES

AROUND = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
# What a file has to be readable on a dark ground by itself; a page has a ground of its own.
BACKDROP = re.compile(r'<rect\b[^>]*\bclass="backdrop"[^>]*/>\s*')
HEAD = re.compile(r"<svg\b[^>]*>", re.DOTALL)
NAMED = re.compile(r"""(\bid="|url\(["']?#|\bhref="#)(?=[\w.-])""")
SPACES = re.compile(r"""\s+xmlns:\w+="[^"]*"|\bxlink:(?=href=)""")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")


def inline(svg: str, name: str, label: str, kind: str) -> str:
    """The file text `svg` as an element of a page.

    name: put before its ids, so that no two pictures of a page share one. label: its alternative
    text, in the page's language. kind: its CSS class. Its ``viewBox`` says how large it is, in CSS
    pixels; the style sheet shrinks it where there is less room.
    """
    body = SPACES.sub("", BACKDROP.sub("", AROUND.sub("", svg))).strip()
    body = NAMED.sub(rf"\g<1>{name}-", body)
    body = COLOUR.sub(lambda found: VARIABLES.get(found[0].lower(), found[0]), body)
    head = HEAD.search(body)
    if head is None:
        raise ValueError(f"inline: {name} is no SVG; it has no <svg> element")
    box = re.search(r'viewBox="([^"]*)"', head[0])
    if box is None:
        raise ValueError(f"inline: {name} has no viewBox, so nobody knows how large it is")
    width, height = (f"{float(size):g}" for size in box[1].split()[2:])
    new = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" '
        f'aria-label="{escape(label)}" viewBox="{box[1]}" width="{width}" height="{height}">'
    )
    return body[: head.start()] + new + body[head.end() :]
