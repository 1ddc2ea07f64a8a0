"""The contents of the book beside each page: drawn from titles alone, once where it may be."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from docutils import nodes
from markupsafe import Markup
from sphinx import addnodes


def draw_contents(shared, app, pagename, templatename, context, doctree):
    """Give the templates `contents`, which draws the contents of the book beside a page.

    shared: what has been drawn. No page of source code is in the contents: they differ only in how
    deep the page lies, and are drawn once for each depth. The theme draws each page's twice: once
    to see whether there are any.
    """
    listing = pagename.startswith("_modules/")
    key = pagename.count("/") if listing else pagename

    def contents(draw, **options):
        if key not in shared:
            with titles_only(app.env):
                shared[key] = Markup(draw(titles_only=True, **options))
        return shared[key]

    context["contents"] = contents


@contextmanager
def titles_only(env) -> Iterator[None]:
    """Without the headings inside pages, which Sphinx copies for each page to drop them again.

    The tables of all pages are copied for the contents beside each: a quarter of a build.
    """
    if not hasattr(env, "tocs_of_titles"):
        env.tocs_of_titles = {name: of_title(toc) for name, toc in env.tocs.items()}
    whole, env.tocs = env.tocs, env.tocs_of_titles
    try:
        yield
    finally:
        env.tocs = whole


def of_title(toc: nodes.bullet_list) -> nodes.bullet_list:
    """The table of a page with its title and the pages below it."""
    toc = toc.deepcopy()
    for item in toc.children:
        if len(item) > 1:
            below = list(item.findall(addnodes.toctree))
            item[1][:] = below
            if not below:
                item.pop(1)
    return toc


def setup(app):
    # the theme draws at 500
    app.connect("html-page-context", partial(draw_contents, {}), priority=400)
