"""Formulas as MathML, made when the book is built: no script draws them in the reader's browser.

The TeX that an author wrote stays in the formula, as its annotation: ``book.js`` puts that on the
clipboard where a reader copies a sentence. A formula in a line of its own may be broken before a
sign, as a browser breaks a sentence: each part is an element.
"""

import re
import xml.etree.ElementTree as ET
from html import unescape

from docutils import nodes
from latex2mathml.converter import convert_to_element

LONG = 18  # signs, of a formula that may be wider than what is left of a line on a phone
SPACES = re.compile(r"\s+")
BREAKS = {"=", "≈", "+", "-", "\N{MINUS SIGN}", "×", "·", "\N{DOT OPERATOR}"}
FUNCTIONS = {"ln", "log", "exp", "sin", "cos"}
OPENS, CLOSES = {"(", "[", "{"}, {")", "]", "}"}


def inline(tex: str) -> str:
    """The formula `tex` within a sentence; a long one may be broken, too."""
    row = _row(tex, "inline")
    return (
        _in_parts(row, tex, {}) if len("".join(row.itertext())) > LONG else _element(row, tex, {})
    )


def block(tex: str) -> str:
    """The parts of the formula `tex`, for a line of its own; the first has all of its TeX."""
    return _in_parts(_row(tex, "block"), tex, {"displaystyle": "true"})


def _in_parts(row: ET.Element, tex: str, attributes: dict[str, str]) -> str:
    parts = _parts(list(row)) if row.tag == "mrow" else [[row]]
    return "".join(
        _element(_wrapped(part), "" if number else tex, attributes)
        for number, part in enumerate(parts)
    )


def _row(tex: str, display: str) -> ET.Element:
    """What is in the formula, without the element around it."""
    formula = convert_to_element(SPACES.sub(" ", tex.strip()), display=display)
    for part in formula.iter():
        part.text = part.text and unescape(part.text)
        if part.tag == "mtext":  # which counts as a space: a sign beside it would get none
            part.tag = "mi"
            part.set("mathvariant", "normal")
        if part.tag == "mo" and part.text == "/":
            part.set("lspace", "0")
            part.set("rspace", "0")
        if part.tag == "mrow" and [child.tag for child in part] == ["mo"]:
            part[0].set("lspace", "0")  # 28{,}782: a sign in braces is an ordinary one
            part[0].set("rspace", "0")
    for part in list(formula.iter("mrow")):
        for place in reversed(range(1, len(part))):
            if _function(part[place - 1]) and part[place].text != "(":
                part.insert(place, ET.Element("mspace", width="0.167em"))  # as in "ln 2"
    return formula[0]


def _function(part: ET.Element) -> bool:
    """Is it a function's name, or one with an index?"""
    return (part[0] if part.tag == "msub" else part).text in FUNCTIONS


def _parts(children: list[ET.Element]) -> list[list[ET.Element]]:
    """The children cut before each sign that is in no brackets, and after a wide space."""
    parts, depth, wide = [[]], 0, False
    for child in children:
        text = (child.text or "") if child.tag == "mo" else ""
        depth += (text in OPENS) - (text in CLOSES)
        sign = depth == 0 and text in BREAKS
        if parts[-1] and (sign or wide):
            parts.append([])
            if sign:
                child.set("form", "infix")  # at the beginning of a part it has its space, too
        parts[-1].append(child)
        wide = child.tag == "mspace" and child.get("width", "").startswith(("1em", "2em"))
    return parts


def _wrapped(part: list[ET.Element]) -> ET.Element:
    row = ET.Element("mrow")
    row.extend(part)
    return row


def _element(row: ET.Element, tex: str, attributes: dict[str, str]) -> str:
    math = ET.Element("math", xmlns="http://www.w3.org/1998/Math/MathML", **attributes)
    meaning = ET.SubElement(math, "semantics")
    meaning.append(row)
    if tex:
        note = ET.SubElement(meaning, "annotation", encoding="application/x-tex")
        note.text = SPACES.sub(" ", tex.strip())
    return ET.tostring(math, encoding="unicode")


def visit_inline(translator, node):
    """Write the formula within a sentence."""
    translator.body.append(inline(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write the formula in a line of its own."""
    opening = translator.starttag(node, "div", "", CLASS="math")
    translator.body.append(f"{opening}{block(node.astext())}</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
