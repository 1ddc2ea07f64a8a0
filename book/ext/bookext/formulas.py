"""Formulas as MathML, made when the book is built: no script draws them in the reader's browser.

The TeX that an author wrote stays in the formula, as its annotation: ``book.js`` puts that on the
clipboard where a reader copies a sentence.
"""

import re
import xml.etree.ElementTree as ET
from html import unescape

from docutils import nodes
from latex2mathml.converter import convert_to_element

SPACES = re.compile(r"\s+")


def mathml(tex: str, display: str) -> str:
    """The formula `tex` as a ``<math>`` element; display: ``inline`` or ``block``."""
    tex = SPACES.sub(" ", tex.strip())
    formula = convert_to_element(tex, display=display)
    for part in formula.iter():
        part.text = part.text and unescape(part.text)
        if part.tag == "mrow" and [child.tag for child in part] == ["mo"]:
            part[0].set("lspace", "0")  # 28{,}782: a sign in braces is an ordinary one
            part[0].set("rspace", "0")
    row = formula[0]
    formula.remove(row)
    meaning = ET.SubElement(formula, "semantics")
    meaning.append(row)
    ET.SubElement(meaning, "annotation", encoding="application/x-tex").text = tex
    return ET.tostring(formula, encoding="unicode")


def visit_inline(translator, node):
    """Write the formula within a sentence."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write the formula in a line of its own, which scrolls where a phone is too narrow for it."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(mathml(node.astext(), "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
