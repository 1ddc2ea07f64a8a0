"""What pages load, as the browser counts it: no page carries what it has no use for."""

import re

import pytest

from tests.site.drawn import SETTLED

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
PAGE, SCRIPTS = 700_000, 300_000  # bytes at most: a page without its pictures, its scripts
SVG = re.compile(rb"<svg\b.*?</svg>", re.DOTALL)
INLINE = re.compile(rb"<script\b[^>]*>(.*?)</script>", re.DOTALL)
SMALL = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
PICTURE = re.compile(r"\.(?:png|svg|jpe?g|gif|webp)$|^data:image/")
LOADED = """() => performance.getEntriesByType('resource')
    .map((entry) => [entry.name.replace(/\\?.*/, ''), entry.decodedBodySize])"""
# The icons on the page that have no drawing.
WITHOUT_DRAWING = """() => [...document.querySelectorAll('.fa-solid, .fa-brands')]
    .filter((icon) => !getComputedStyle(icon).getPropertyValue('--icon').includes('svg'))
    .map((icon) => icon.className)"""
TOO_WIDE = """() => [...document.querySelectorAll('article math')]
    .filter((formula) => formula.getBoundingClientRect().right > innerWidth
        || formula.parentElement.scrollWidth > formula.parentElement.clientWidth + 1
           && formula.parentElement.matches('div.math'))
    .map((formula) => formula.querySelector('annotation').textContent)"""


def test_a_page_loads_little_and_draws_its_icons(visit, site, tour, text_pages, pages, address):
    page = visit("index.html")
    heavy = []
    for path in tour(pages):
        page.goto(address + path)
        page.wait_for_function(SETTLED)
        if path in text_pages or path.endswith("search.html"):
            assert page.query_selector(".fa-solid"), path
            assert page.evaluate(WITHOUT_DRAWING) == [], path
        text = (site / path).read_bytes()
        loaded = [(n, size) for n, size in page.evaluate(LOADED) if not PICTURE.search(n)]
        scripts = sum(size for name, size in loaded if name.endswith(".js"))
        scripts += sum(map(len, INLINE.findall(text)))
        all_of_it = len(SVG.sub(b"", text)) + sum(size for _, size in loaded)
        if all_of_it > PAGE or scripts > SCRIPTS:
            heavy.append(f"{path}: {all_of_it} bytes, {scripts} of them scripts: {loaded}")
    assert not heavy, "\n".join(heavy)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_index_is_read_when_somebody_searches(visit, language, address):
    page = visit(f"{language}/book/{language}/index.html")
    page.goto(f"{address}{language}/search.html")
    page.wait_for_function(SETTLED)
    assert not [name for name, _ in page.evaluate(LOADED) if name.endswith("searchindex.js")]
    page.fill(".bd-search-container input[name=q]", "all_reduce")
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.search li > a")
    assert [name for name, _ in page.evaluate(LOADED) if name.endswith("searchindex.js")]


def test_formulas_fit_a_narrow_phone(visit, tour, text_pages, address):
    page, wide = visit("index.html", **SMALL), []
    for path in tour(text_pages):
        page.goto(address + path)
        wide += [f"{path}: {formula}" for formula in page.evaluate(TOO_WIDE)]
    assert not wide, "\n".join(wide)


def test_a_copied_sentence_has_its_formulas_in_tex(visit):
    page = visit("en/chapters/en/24_bubble.html")
    copied = page.evaluate("""() => {
        const formula = document.querySelector('article p math');
        getSelection().selectAllChildren(formula.closest('p'));
        const clipboardData = new DataTransfer();
        formula.dispatchEvent(new ClipboardEvent('copy', {clipboardData, bubbles: true}));
        const tex = formula.querySelector('annotation').textContent;
        return [clipboardData.getData('text/plain'), tex];
    }""")
    assert f"${copied[1]}$" in copied[0]


def test_the_search_field_opens_and_closes_with_keys(visit):
    page = visit("en/chapters/en/24_bubble.html")
    page.wait_for_function(SETTLED)
    page.keyboard.press("Control+k")
    page.wait_for_selector("#pst-search-dialog[open] input:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("#pst-search-dialog:not([open])", state="attached")


def test_both_contents_can_be_shown_and_hidden(visit):
    page = visit("en/chapters/en/24_bubble.html", **SMALL)
    for toggle, dialog in (("primary", "primary"), ("secondary", "secondary")):
        page.click(f".{toggle}-toggle")
        page.wait_for_selector(f"#pst-{dialog}-sidebar-modal[open] a", state="visible")
        page.keyboard.press("Escape")
        page.wait_for_selector(f"#pst-{dialog}-sidebar-modal:not([open])", state="attached")
