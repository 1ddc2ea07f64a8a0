"""The same anchors in both languages, so that the language switch lands at the same place.

Sections are numbered by their position (``at-2-1``), notebook cells by theirs (``at-cell-12``).
The languages' headings and cells correspond one to one; ``tests/languages`` holds them to it.
"""

import re

from docutils import nodes

NAMELESS = re.compile(r"id\d+$")  # what docutils calls a heading without a Latin letter


def number(app, doctree):
    """Add the anchors to every section and notebook cell of `doctree`."""
    for top in doctree.children:
        if isinstance(top, nodes.section):
            _number_sections(doctree, top, "at")
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            _add(doctree, cell, f"at-cell-{cell['cell_index']}")


def _number_sections(doctree, section: nodes.section, name: str) -> None:
    inside = [child for child in section.children if isinstance(child, nodes.section)]
    for position, child in enumerate(inside, 1):
        _add(doctree, child, f"{name}-{position}")
        _number_sections(doctree, child, f"{name}-{position}")


def _add(doctree, node: nodes.Element, anchor: str) -> None:
    doctree.ids[anchor] = node
    # The first id is the one in links and in the address bar.
    first = not node["ids"] or NAMELESS.match(node["ids"][0])
    node["ids"].insert(0 if first else len(node["ids"]), anchor)


def setup(app):
    app.connect("doctree-read", number, priority=100)  # before Sphinx collects the contents
