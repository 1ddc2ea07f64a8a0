"""Figures of cells within the page: their colours follow its mode, their words its language.

One execution serves both languages: on Chinese pages the labels are translated from the catalogue
(`bookext.labels`), and those of recorded tables' heads, too. What is wrong with a figure, such as a
label without a translation, is a warning, and a warning fails the build.
"""

import html
import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from sphinx.util import logging

from bookext.inline import COLOUR, inline
from bookext.labels import Untranslated, translate
from bookext.lighter import SVG, lightened, outside
from plots.palette import VARIABLES

SCALE = 1.5  # CSS pixels of a unit of the drawing, where there is room
SIZE = re.compile(r'(?<= width="|height=")[\d.]+')
HEAD = re.compile(r"(?<=<th>)[^<]+(?=</th>)|(?<=<td>)not measured yet(?=</td>)")
log = logging.getLogger(__name__)


def plot(svg: str, language: str, name: str, label: str) -> tuple[str, list[str]]:
    """matplotlib's `svg` as an element of a page, and what is wrong with it, a sentence each.

    language: ``zh`` translates. name: put before its ids. label: its alternative text.
    """
    root, wrong = lightened(svg), []
    for text in root.iter(f"{SVG}text") if language == "zh" else ():
        try:
            text.text = translate(text.text or "")
        except Untranslated as error:
            wrong.append(f"no file of book/labels translates {str(error)!r}")
    if root.find(f".//{SVG}tspan") is not None:
        wrong.append("words are set as a formula, which nobody translates")
    wrong += [f"{words!r} sticks out" for words in outside(root)]
    wrong += [
        f"{colour} is not in the palette"
        for colour in sorted(set(COLOUR.findall(svg)) - VARIABLES.keys())
    ]
    page = inline(ElementTree.tostring(root, "unicode"), name, label, "plot")
    head, rest = page.split(">", 1)
    head = SIZE.sub(lambda found: f"{SCALE * float(found[0]):.0f}", head)
    return f"{head}>{rest}", wrong


def show(app, doctree):
    """Put the figures of the cells into the page; before Sphinx collects what pages link to."""
    language = app.config.html_context["lang"]
    for number, image in enumerate(list(doctree.findall(_is_figure)), 1):
        file = Path(app.env.relfn2path(image["uri"])[1])
        svg = file.read_text("utf-8")
        page, wrong = plot(svg, language, f"plot-{number}", image["alt"])
        for sentence in wrong:
            log.warning("a figure of a cell: %s", sentence, location=image)
        image.replace_self(nodes.raw("", page, format="html"))
    if language == "zh":
        translate_heads(doctree)


def _is_figure(node) -> bool:
    """Is `node` a drawing that a cell's output shows?"""
    if not (isinstance(node, nodes.image) and node["uri"].endswith(".svg")):
        return False
    while node := node.parent:
        if node.get("nb_element") == "cell_code_output":
            return True
    return False


def translate_heads(doctree):
    """Translate the heads of the tables that cells show, where the catalogue has them; and what
    stands in a table whose measurement is still to come."""
    for node in doctree.findall(nodes.raw):
        if 'class="table"' in node.astext():
            text = HEAD.sub(_head, node.astext())
            node.replace_self(nodes.raw("", text, format="html"))


def _head(found: re.Match) -> str:
    try:
        return html.escape(translate(html.unescape(found[0])))
    except Untranslated:
        return found[0]


def setup(app):
    app.connect("doctree-read", show, priority=400)  # images are collected at 500
