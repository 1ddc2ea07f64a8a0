"""The last step of a build: pages made lean, with one style sheet and one script for all of them.

`lean_html` goes over each page, `lean_css` keeps the rules that the pages use, `scripts` says which
scripts every page runs. What no page loads any more leaves ``_static``. All that is done in a copy,
``lean`` beside Sphinx's folder: there, Sphinx finds the pages that it need not write again.
"""

import hashlib
import re
import shutil
from pathlib import Path

from bookext import lean_css, lean_html, scripts

SHEET = "pages.css"
LINK = re.compile(r'\s*<link\b[^>]*\brel="stylesheet"[^>]*>')
HREF = re.compile(r'\bhref="[^"?]*?_static/([^"?]+)')
LOADED = re.compile(r'<script\b[^>]*\bsrc="[^"?]*?_static/([^"?]+)')
IMPORT = re.compile(r'@import\s+(?:url\()?["\']([^"\']+)["\']\)?[^;]*;')
NEVER_LOADED = {".css", ".js", ".map", ".ttf", ".woff", ".woff2", ".txt"}
# Parts of the theme that its script speaks of and that this book has no page with.
NOT_HERE = {
    "dropdown-menu", "dropdown-menu-dark", "dropdown-item", "list-group-item",
    "list-group-item-action", "version-switcher__menu", "bd-header-announcement",
    "pst-button-link-to-stable-version", "pst-collapse-sidebar-button",
    "pst-expand-sidebar-label", "ms-auto", "me-auto", "text-wrap", "sidebar-message",
}  # fmt: skip


def lighten(app, error):
    """Copy all that was written, and go over each page."""
    if error or app.builder.format != "html":
        return
    site = Path(app.outdir).with_name("lean")
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(app.outdir, site)
    static = site / "_static"
    plain = lean_html.plain_classes((static / "pygments.css").read_text("utf-8"))
    pages = {
        path: lean_html.lean(path.read_text("utf-8"), path, plain)
        for path in site.rglob("*.html")
        if static not in path.parents
    }
    bundle = scripts.bundle(static)
    loaded = sorted({name for text in pages.values() for name in LOADED.findall(text)})
    loaded = [name for name in loaded if (static / name).exists()]
    names = names_of(pages.values(), [bundle, *((static / n).read_text("utf-8") for n in loaded)])
    links = dict.fromkeys(link for text in pages.values() for link in LINK.findall(text))
    sheets = dict.fromkeys(found[1] for link in links if (found := HREF.search(link)))
    sheet = lean_css.lean([read_sheet(static / name) for name in sheets], names)
    written = {SHEET: sheet, scripts.BUNDLE: bundle}
    for path, text in pages.items():
        path.write_text(with_assets(text, written), "utf-8")
    for path in static.rglob("*"):
        if path.suffix in NEVER_LOADED and str(path.relative_to(static)) not in loaded:
            path.unlink()
    for name, text in written.items():
        (static / name).write_text(text, "utf-8")


def names_of(pages, texts) -> lean_css.Names:
    """What occurs in `pages`, or may be made by the scripts with these `texts`."""
    names = lean_css.Names()
    for page in pages:
        names.add_page(page)
    for text in texts:
        names.add_script(text)
    names.words -= NOT_HERE
    return names


def read_sheet(path: Path) -> str:
    """The style sheet at `path`, with those that it imports in their places."""
    return IMPORT.sub(lambda found: read_sheet(path.parent / found[1]), path.read_text("utf-8"))


def with_assets(text: str, written: dict[str, str]) -> str:
    """The page with its one style sheet and its one script, in the version that was `written`."""
    links = LINK.findall(text)
    if links:
        base = re.search(r'href="([^"]*?)_static/', links[0])
        link = f'<link rel="stylesheet" href="{base[1]}_static/{_versioned(SHEET, written)}">'
        text = text.replace(links[0], "\n" + link, 1)
        for other in links[1:]:
            text = text.replace(other, "", 1)
    script = f"_static/{scripts.BUNDLE}"
    return text.replace(f'{script}"', f'_static/{_versioned(scripts.BUNDLE, written)}"')


def _versioned(name: str, written: dict[str, str]) -> str:
    return f"{name}?v={hashlib.sha256(written[name].encode()).hexdigest()[:8]}"


def setup(app):
    app.connect("build-finished", lighten, priority=900)  # after all that write a page
