"""Which scripts a page loads: what it has a use for, after the page itself, most of it in one file.

Sphinx, the theme and its extensions give every page all they have. Here a script stays if the page
has what it works on; those that every page has go into one file.
"""

import re
from pathlib import Path

BUNDLE = "scripts.js"
# In the order in which they need one another; translations.js is on Chinese pages alone.
EVERYWHERE = (
    "documentation_options.js",
    "doctools.js",
    "translations.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "scripts/pydata-sphinx-theme.js",
    "book.js",
)
FROM_TEMPLATE = {"sphinx_highlight.js"}  # search.html has it where its order matters
# What they work on, in the HTML of a page.
SOMEWHERE = {
    "togglebutton.js": re.compile(r'class="[^"]*\b(?:toggle|dropdown)\b'),
    "design-tabs.js": re.compile(r'class="[^"]*\bsd-tab-set\b'),
    "scripts/bootstrap.js": re.compile(r'data-bs-toggle="(?:dropdown|collapse)"'),
}
# They stand in the page and would run before the file that they speak to: a default, or unused.
NOT_NEEDED = re.compile(r"DOCUMENTATION_OPTIONS\.")
OF_TOGGLES = re.compile(r"\btoggle(?:Hint|OpenOn|button)")


def choose(app, pagename, templatename, context, doctree):
    """Leave a page the scripts it has a use for; it reads them all before it runs any."""
    body, known = context.get("body", ""), {*EVERYWHERE, *SOMEWHERE, *FROM_TEMPLATE}
    toggles = SOMEWHERE["togglebutton.js"].search(body)
    kept = []
    for script in context["script_files"]:
        name = str(script.filename or "").removeprefix("_static/")
        text = script.attributes.get("body", "")
        if name in SOMEWHERE and SOMEWHERE[name].search(body):
            script.attributes["defer"] = "defer"
        elif name in known or NOT_NEEDED.match(text) or (OF_TOGGLES.search(text) and not toggles):
            continue
        kept.append(script)
    context["script_files"] = kept
    context["bundle"] = BUNDLE


def bundle(static: Path) -> str:
    """The text of the scripts of every page, one after the other."""
    parts = [static / name for name in EVERYWHERE]
    return ";\n".join(part.read_text("utf-8") for part in parts if part.exists())


def setup(app):
    app.connect("html-page-context", choose, priority=900)  # after all that add one
