"""Cells of a chapter, shown on another page as the chapter's execution left them.

``<!-- cells: 11_ranks_live fail-raise after-raise-again -->`` in a page becomes these two cells,
code and output, exactly as they stand in the chapter.
"""

import re
from copy import deepcopy
from functools import cache

from docutils import nodes
from jupyter_cache import get_cache
from myst_nb.core.utils import coalesce_streams
from nbformat import NotebookNode
from sphinx.util import logging

WARN = logging.getLogger(__name__)
MARK = re.compile(r"cells:\s+(\S+)\s+(.+?)\s*(?:-->)?$")


def fill(app, doctree):
    """Put the cells where a comment names them."""
    language = app.config.html_context["lang"]
    comments = [n for n in doctree.findall() if isinstance(n, nodes.comment | nodes.raw)]
    for comment in comments:
        if found := MARK.search(comment.astext().strip()):
            page = f"chapters/{language}/{found[1]}"
            try:
                cells = executed(app.config.nb_execution_cache_path, page)
                shown = [shown_cell(cells[name]) for name in found[2].split()]
            except LookupError as error:
                WARN.warning(f"an excerpt cannot be shown: {error}", location=comment)
            else:
                comment.replace_self(nodes.container("", *shown, classes=["excerpt"]))


@cache
def executed(folder: str, page: str) -> dict[str, NotebookNode]:
    """The cells of a page's execution, by their ids. Raises LookupError if it was not executed."""
    cache = get_cache(folder)
    for record in cache.list_cache_records():
        if record.uri == page:
            return {cell.id: cell for cell in cache.get_cache_bundle(record.pk).nb.cells}
    raise LookupError(f"no execution of {page} is there to show cells of")


def shown_cell(cell: NotebookNode) -> nodes.container:
    """A cell with its output, under the classes that MyST-NB gives them.

    What the kernel sent in pieces is one text, as in the chapter (`nb_merge_streams`).
    """
    code = literal(cell.source, "ipython3")
    whole = nodes.container("", nodes.container("", code, classes=["cell_input"]), classes=["cell"])
    merged = coalesce_streams(deepcopy(cell.outputs))
    if outputs := [literal(*output) for output in map(printed, merged)]:
        whole += nodes.container("", *outputs, classes=["cell_output"])
    return whole


def printed(output: NotebookNode) -> tuple[str, str, str]:
    """What a cell printed or raised: the text, its lexer, its class."""
    if output.output_type == "error":
        return "\n".join(output.traceback), "ranks-output", "traceback"
    if output.output_type == "stream":
        return output.text.rstrip("\n"), "ranks-output", "stream"
    raise LookupError(f"an excerpt shows text only, no {output.output_type}")


def literal(text: str, lexer: str, kind: str = "") -> nodes.literal_block:
    classes = ["output", kind] if kind else []
    return nodes.literal_block(text, text, language=lexer, classes=classes)


def setup(app):
    app.connect("doctree-read", fill)
