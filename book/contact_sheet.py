"""Every picture of the built book on one sheet: both languages, desktop, dark, phone.

Usage: ``python book/contact_sheet.py [PAGE ...]`` (``24_bubble``; all pages without one), after
`make book`. It writes ``_build/contact-sheet/index.html``: a row a picture, to look at before and
after a change. Needs Chromium.
"""

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import chromium
from fingerprint import OUT
from pages import LANGUAGES, SITE
from playwright.sync_api import Browser, sync_playwright

SHEET = OUT / "contact-sheet"
PICTURES = "article :is(figure.moving, svg.drawing, svg.plot, img)"
# as high as the highest picture: none has to be put together from several screens
WIDE, NARROW = {"width": 1280, "height": 2400}, {"width": 360, "height": 2400}
ALONE = ".bd-header-article, .skip-link { display: none !important }"
VIEWS = {
    "desktop": {"viewport": WIDE},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": NARROW, "device_scale_factor": 2, "has_touch": True},
}
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Contact sheet</title><style>
body { font: 14px system-ui, sans-serif; margin: 1rem } h2 { margin: 2rem 0 .3rem }
.row { display: flex; gap: 1rem; align-items: flex-start; overflow-x: auto; margin: 1rem 0 }
figure { margin: 0; flex: none } img { max-width: 24rem; border: 1px solid #ccc }
img.phone { width: 18rem } figcaption { color: #666 } p { margin: .2rem 0; max-width: 60rem }
</style>"""


def main() -> int:
    """Take the pictures and lay them out; return the exit status."""
    chosen = set(sys.argv[1:])
    pages = [page for page in sorted(SITE.glob("en/*/en/**/*.html")) if with_pictures(page, chosen)]
    if not pages:
        print("contact_sheet: no such page with a picture in _build/html; run make book first")
        return 1
    program = chromium.program()
    if not program:
        print(f"contact_sheet: no Chromium on the PATH ({', '.join(chromium.NAMES)}); install one")
        return 1
    SHEET.mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        for page in pages:
            rows += [f"<h2>{page.stem}</h2>", *sheet(browser, page)]
            print(f"{page.stem}: {len(rows)} lines so far", flush=True)
        browser.close()
    (SHEET / "index.html").write_text(HEAD + "\n".join(rows), "utf-8")
    print(f"Open {SHEET / 'index.html'}")
    return 0


def with_pictures(page: Path, chosen: set[str]) -> bool:
    """Whether the file of a page belongs on the sheet."""
    if chosen and page.stem not in chosen:
        return False
    text = page.read_text("utf-8")
    return any(mark in text for mark in ('class="drawing', 'class="plot', "moving", "<img"))


def sheet(browser: Browser, page: Path) -> list[str]:
    """A row for each picture of a page, English and Chinese, in every view."""
    taken: dict[int, list[str]] = {}
    for language in LANGUAGES:
        path = Path(str(page.relative_to(SITE)).replace("en/", f"{language}/"))
        for view, options in VIEWS.items():
            for number, name, label in pictures(
                browser, SITE / path, f"{language}-{view}", options
            ):
                title = f"<p>{escape(label)}</p>" if view == "desktop" else ""
                shown = f'<img class="{view}" src="{name}" alt="" loading="lazy">'
                cell = f"<figure>{shown}<figcaption>{language}, {view}{title}</figcaption></figure>"
                taken.setdefault(number, []).append(cell)
    return [f'<div class="row">{"".join(cells)}</div>' for cells in taken.values()]


def pictures(
    browser: Browser, path: Path, kind: str, options: dict
) -> Iterator[tuple[int, str, str]]:
    """Photograph the pictures of a page; yield number, file name and alternative text of each."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="load")
    page.add_style_tag(content=ALONE)
    number = 0
    for element in page.query_selector_all(PICTURES):
        if not element.is_visible() or element.evaluate(
            "e => !!e.parentElement.closest('.moving')"
        ):
            continue
        number += 1
        name = f"{path.stem}-{number}-{kind}.png"
        element.screenshot(path=SHEET / name)
        label = element.get_attribute("aria-label") or element.get_attribute("alt") or ""
        yield number, name, label
    context.close()


if __name__ == "__main__":
    sys.exit(main())
