"""The mark at the top of a chapter that stopped on this machine: which cell, and why."""

from docutils import nodes

from bookext.words import words_of


def mark(app, doctree):
    """Put the mark below the title, where the build says that the chapter stopped."""
    context = app.config.html_context
    stopped = context.get("executed", {}).get(app.env.docname, {}).get("stopped")
    if not stopped:
        return
    words = words_of(context["lang"])["stopped"]
    before, name, after = words["cell" if stopped["cell"] else "start"].partition("`{cell}`")
    line = nodes.paragraph("", before.format(**stopped))
    if name:
        line += [nodes.literal("", stopped["cell"]), nodes.Text(after.format(**stopped))]
    title = nodes.paragraph(words["title"], words["title"], classes=["admonition-title"])
    box = nodes.admonition("", title, line, classes=["warning", "stopped"])
    top = next(child for child in doctree.children if isinstance(child, nodes.section))
    top.insert(1, box)


def setup(app):
    app.connect("doctree-read", mark, priority=900)  # below the cards' own places
