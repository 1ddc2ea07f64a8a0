"""What a page tells search engines: its address, its twin's, and a sentence about it.

Addresses need to know where the book stands: `html.baseurl` in ``_config.yml``, the one place. With
none, the pages give no such address, and work wherever they are copied to.
"""

import re
from html import escape

from docutils import nodes

from bookext.words import words_of

LONG_ENOUGH, TOO_LONG = 60, 300  # characters of a description; a Chinese one says as much in half
ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
NO_PROSE = (nodes.container, nodes.topic, nodes.Admonition, nodes.list_item, nodes.table)


def describe(app, pagename, templatename, context, doctree):
    """Give the templates the page's `description`, and `addresses` for its head."""
    language = app.config.html_context["lang"]
    prose = opening(doctree) if doctree is not None else ""
    context["description"] = prose or words_of(language)["book"]
    base = app.config.html_baseurl
    context["addresses"] = head(pagename, base, language) if base else ""


def opening(doctree) -> str:
    """The first sentences of a page, as many as say something."""
    for paragraph in doctree.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, nodes.section | nodes.document | nodes.container):
            continue
        text = " ".join(paragraph.astext().split())
        sentences, said = ENDS.split(text), ""
        enough = LONG_ENOUGH if text.isascii() or not re.search("[\u4e00-\u9fff]", text) else 30
        for sentence in sentences:
            if said and (len(said) >= enough or len(said) + len(sentence) > TOO_LONG):
                break
            space = " " if said and not said.endswith(("。", "！", "？")) else ""
            said += space + sentence
        if len(said) >= 10:
            return said
    return ""


def head(pagename: str, base: str, language: str) -> str:
    """The links to the page in both languages, and to the one that chooses.

    base: where the book in this `language` stands, which ends with it (`pages.configuration`).
    """
    root = base.rstrip("/").removesuffix(language)
    links = {"x-default": root}
    for code, tag in (("en", "en"), ("zh", "zh-CN")):
        links[tag] = f"{root}{code}/{twin(pagename, language, code)}.html"
    return "\n".join(
        f'<link rel="alternate" hreflang="{tag}" href="{escape(address)}" />'
        for tag, address in links.items()
    )


def twin(pagename: str, language: str, code: str) -> str:
    """The name of the page in the language `code`: ``chapters/zh/24_bubble``."""
    return pagename.replace(f"/{language}/", f"/{code}/", 1)


def setup(app):
    app.connect("html-page-context", describe)
