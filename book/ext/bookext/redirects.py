"""Old addresses: a small page at each of them leads to where the page is now.

One more, ``index.html``, leads to the front page.

With scripts the place on the page (``#at-2-1``) comes along; without, a link and a refresh do. The
pages are written beside Sphinx's own: no search finds them.
"""

import os.path
from html import escape
from pathlib import Path

import yaml

from bookext.words import words_of

TABLE = Path(__file__).resolve().parents[2] / "redirects.yml"
PAGE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={url}">
<link rel="canonical" href="{url}">
<link rel="icon" href="data:,">
<title>{moved}</title>
<script>location.replace("{url}" + location.search + location.hash);</script>
</head>
<body><p>{moved}: <a href="{url}">{name}</a></p></body>
</html>
"""


def write(app, error):
    """Write the pages when all others are there; an old address must lead to one that is."""
    if error or app.builder.format != "html":
        return
    language, site = app.config.html_context["lang"], Path(app.outdir)
    moved = words_of(language)["moved"]
    for old, new in {**addresses(language), "index": app.config.root_doc}.items():
        if new not in app.env.all_docs:
            continue  # not in this book: the test of the whole one tells
        page = site / f"{old}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        url = os.path.relpath(f"{new}.html", Path(old).parent)
        words = {"lang": app.config.html_context["lang_html"], "url": url, "moved": moved}
        name = app.env.titles[new].astext()
        page.write_text(PAGE.format(name=escape(name), **words), "utf-8")


def addresses(language: str) -> dict[str, str]:
    """The pages of `language` that the old addresses lead to, both without ``.html``."""
    table = yaml.safe_load(TABLE.read_text("utf-8"))
    return {_in(language, old): _in(language, new) for old, new in table.items()}


def _in(language: str, page: str) -> str:
    folder, _, name = page.partition("/")
    return f"{folder}/{language}/{name}"


def setup(app):
    app.connect("build-finished", write)
