"""What stands beside the two languages: the page that chooses one, and what search engines read.

The latter need absolute addresses: they are there if `html.baseurl` in ``_config.yml`` is set.
"""

from html import escape
from pathlib import Path

ROOT_PAGE = Path(__file__).resolve().parent / "root.html"
FRONT = {"en": ("en", "en/book/en/index.html"), "zh": ("zh-CN", "zh/book/zh/index.html")}
READ = ("book", "chapters")  # folders of a language with pages that somebody wrote


def around(site: Path, base: str) -> None:
    """Write ``index.html``, and with an address `base` also ``robots.txt`` and ``sitemap.xml``."""
    page = ROOT_PAGE.read_text("utf-8")
    if base:
        page = page.replace("</title>\n", "</title>\n" + links(base), 1)
    (site / "index.html").write_text(page, "utf-8")
    made = {"robots.txt": robots(base), "sitemap.xml": sitemap(base, pages(site))} if base else {}
    for name in ("robots.txt", "sitemap.xml"):
        if name in made:
            (site / name).write_text(made[name], "utf-8")
        else:
            (site / name).unlink(missing_ok=True)


def links(base: str) -> str:
    """The links to the front pages, for the head of the page that chooses."""
    found = {"x-default": base} | {tag: base + page for tag, page in FRONT.values()}
    lines = [f'<link rel="canonical" href="{escape(base)}">']
    lines += [
        f'<link rel="alternate" hreflang="{tag}" href="{escape(address)}">'
        for tag, address in found.items()
    ]
    return "\n".join(lines) + "\n"


def pages(site: Path) -> list[str]:
    """The pages of both languages that a reader may look for; those that moved are none."""
    found = [p for lang in FRONT for part in READ for p in (site / lang / part).rglob("*.html")]
    kept = [p for p in found if 'name="robots" content="noindex"' not in p.read_text("utf-8")]
    return sorted(p.relative_to(site).as_posix() for p in kept)


def sitemap(base: str, names: list[str]) -> str:
    """All `names` as addresses, in the form that search engines read."""
    lines = [f"<url><loc>{escape(base + name)}</loc></url>" for name in ["", *names]]
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'{head}<urlset xmlns="{space}">\n' + "\n".join(lines) + "\n</urlset>\n"


def robots(base: str) -> str:
    """Everything may be read, and this is where the list of it is."""
    return f"User-agent: *\nAllow: /\nSitemap: {base}sitemap.xml\n"
