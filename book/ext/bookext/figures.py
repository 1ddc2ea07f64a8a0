"""Alternative texts of the figures that cells draw, in the page's language.

``<!-- alt: four ranks in a ring -->`` in the Markdown before a cell describes that cell's figures.
Without one, the heading of the section does.
"""

import re

from docutils import nodes

from bookext.words import words_of

ALT = re.compile(r"alt:\s*(.+)", re.DOTALL)


def describe(app, doctree):
    """Give every image that has no alternative text one."""
    words = words_of(app.config.html_context["lang"])
    heading, described = "", ""
    for node in doctree.findall():
        if isinstance(node, nodes.title):
            heading, described = node.astext(), ""
        elif isinstance(node, nodes.comment | nodes.raw) and (found := ALT.search(node.astext())):
            described = " ".join(found[1].removesuffix("-->").split())
        elif isinstance(node, nodes.image) and not node.get("alt"):
            node["alt"] = described or words["figure"].format(heading=heading)


def setup(app):
    app.connect("doctree-read", describe, priority=300)  # before pictures become part of the page
