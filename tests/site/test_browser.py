"""The book in a real browser. Every test also fails on console errors and foreign requests."""

import json
import random
import re
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup

from tests.site.downloads import with_its_pictures
from tests.site.drawn import SETTLED

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}
CHINESE, ENGLISH = r"[\u4e00-\u9fff]{5,9}", r"\b[a-z]{5,}(?: [a-z]{4,}){1,2}\b"


@pytest.mark.parametrize(
    ("locale", "language"), [("zh-CN", "zh"), ("zh-TW", "zh"), ("en-GB", "en"), ("de-DE", "en")]
)
def test_root_page_chooses_the_readers_language(visit, locale, language):
    page = visit("index.html", locale=locale)
    page.wait_for_url(f"**/{language}/book/{language}/index.html")


def test_choice_of_language_is_remembered(visit, address):
    page = visit("en/book/en/index.html", locale="en-GB")
    page.click("a.lang-switch")
    page.wait_for_url("**/zh/book/zh/index.html")
    page.goto(address)
    page.wait_for_url("**/zh/book/zh/index.html")


def test_switch_lands_at_the_same_place(visit, tour, english, address):
    """There and back, in turns: the places have the same names in both."""
    page = visit("index.html")
    for number, path in enumerate(tour(english)):
        here, other = (path, "zh") if number % 2 else (path.replace("en/", "zh/"), "en")
        page.goto(address + here)
        switch(page, here, other)


@pytest.mark.parametrize("scripts", [True, False])
def test_an_old_address_leads_to_the_page_and_the_place(visit, scripts):
    page = visit("zh/chapters/zh/08_elastic.html#at-2", java_script_enabled=scripts)
    page.wait_for_url("**/zh/chapters/zh/41_elastic.html" + ("#at-2" if scripts else "*"))
    assert page.locator("article h1").count() == 1


def switch(page, path: str, other: str) -> None:
    """From the middle of the page that is shown, `path`, to the same place in the `other`."""
    page.wait_for_function(SETTLED)
    anchors = page.eval_on_selector_all("article [id^='at-']", "all => all.map(e => e.id)")
    if not anchors:  # a page in one piece: the switch lands at its top
        assert not page.query_selector_all("article h2, article .cell"), path
        press(page, "a.lang-switch")
        page.wait_for_url(f"**/{path.replace(path[:3], other + '/')}*")
        return
    anchor = anchors[len(anchors) // 2]
    scroll = "id => document.getElementById(id).scrollIntoView({behavior: 'instant'})"
    page.evaluate(scroll, anchor)
    top = "id => document.getElementById(id).getBoundingClientRect().top"
    before = page.evaluate(top, anchor)
    press(page, "a.lang-switch")
    page.wait_for_url(f"**/{path.replace(path[:3], other + '/')}*")
    page.wait_for_function(SETTLED)
    assert page.evaluate("location.hash"), f"{path}: the switch forgot the place"
    height = page.evaluate("innerHeight")
    assert -height < page.evaluate(top, anchor) - before < height, f"{path}: {anchor}"


def press(page, selector: str) -> None:
    """A click where the element is; `page.click` first scrolls a page with a sticky header."""
    box = page.locator(selector).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def search(page, address: str, language: str, query: str) -> list[str]:
    """The pages that a search finds, as they are linked."""
    page.goto(f"{address}{language}/search.html?q={quote(query)}")
    return found(page)


def search_again(page, query: str) -> list[str]:
    """The same on the page of a search, whose index is there; found pages are named, not shown."""
    page.evaluate(
        """query => {
            DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
            document.getElementById('search-results').replaceChildren();
            Search.performSearch(query);
        }""",
        query,
    )
    return found(page)


def found(page) -> list[str]:
    """What the search found, when it is at its end."""
    page.wait_for_function("document.querySelector('.search-summary')?.innerText.length > 0")
    return page.eval_on_selector_all(
        "ul.search li > a", "links => links.map(l => new URL(l.href).pathname)"
    )


def phrases(site, path: str, pattern: str, count: int = 3) -> list[str]:
    """Some phrases of a page's prose, the same ones in every run."""
    article = BeautifulSoup((site / path).read_text("utf-8"), "html.parser").article
    for block in article.select("pre, summary, .math, .headerlink, style, script, .verified"):
        block.decompose()
    found = sorted({m for p in article.select("p") for m in re.findall(pattern, p.text)})
    return random.Random(path).sample(found, min(count, len(found)))


def test_any_chinese_phrase_is_found(visit, site, tour, chinese, address):
    page = visit("zh/search.html")
    assert search(page, address, "zh", "带宽")
    pages = tour(chinese)
    tries = [(path, phrase) for path in pages for phrase in phrases(site, path, CHINESE)]
    assert len(tries) > len(pages)
    for path, phrase in tries:
        assert f"/{path}" in search_again(page, phrase), f"{path}: {phrase}"


@pytest.mark.parametrize("query", ["带宽", "集合通信等待其他", "每个 rank 都在跑", "all_reduce"])
def test_chinese_search(visit, address, query):
    page = visit("zh/search.html")
    assert search(page, address, "zh", query)
    assert "搜索完成" in page.inner_text(".search-summary")


def test_search_finds_nothing_where_nothing_is(visit, address):
    page = visit("zh/search.html")
    assert search(page, address, "zh", "螺蛳粉配方大全") == []
    assert search(page, address, "en", "zygomorphic") == []


def test_english_search(visit, site, tour, english, address):
    page = visit("en/search.html")
    assert search(page, address, "en", "bandwidth")
    pages = tour(english)
    tries = [(path, phrase) for path in pages for phrase in phrases(site, path, ENGLISH, 2)]
    assert len(tries) > len(pages)
    for path, phrase in tries:
        assert f"/{path}" in search_again(page, phrase), f"{path}: {phrase}"


def test_search_summary_shows_the_text_only(visit, address):
    page = visit("zh/search.html")
    search(page, address, "zh", "每字节所需的时间")
    summary = page.wait_for_selector("ul.search li .context").inner_text()
    assert "每字节所需的时间" in summary and "English" not in summary


def test_dark_follows_the_system_and_the_button(visit):
    page = visit("en/book/en/index.html", color_scheme="dark")
    page.wait_for_function(SETTLED)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground)[:3])) < 60
    colours = """['--p-ink', '--p-rank-7'].map((name) =>
        getComputedStyle(document.documentElement).getPropertyValue(name))"""
    dark = page.evaluate(colours)
    while page.evaluate("document.documentElement.dataset.mode") != "light":
        page.click(".article-header-buttons .theme-switch-button")
    for in_dark, in_light in zip(dark, page.evaluate(colours), strict=True):
        assert in_dark and in_dark != in_light, "pictures have the colours of the mode"


def test_pictures_and_formulas_are_in_the_page(visit, tour, text_pages, address):
    page = visit("index.html", java_script_enabled=False)
    pictures, formulas = 0, 0
    for path in tour(text_pages):
        page.goto(address + path)
        for picture in page.query_selector_all("article svg[role=img]"):
            assert picture.get_attribute("aria-label"), path
            pictures += 1
        for formula in page.query_selector_all("article math"):
            box = formula.bounding_box()
            assert box["width"] > 4 and box["height"] > 4, f"{path}: {formula.text_content()}"
            formulas += 1
    assert pictures and formulas


def test_a_phone_never_scrolls_sideways(visit, tour, text_pages, pages, address):
    page = visit("index.html", **PHONE)
    for path in [*tour(text_pages), *(path for path in pages if path.endswith("search.html"))]:
        page.goto(address + path)
        page.wait_for_function(SETTLED)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{path} is {width} wide"


def test_a_phone_has_the_contents_of_the_book(visit):
    page = visit("zh/book/zh/index.html", **PHONE)
    page.click(".primary-toggle")
    page.wait_for_selector("dialog a:has-text('术语表')", state="visible")


def test_download_gives_the_notebook(visit, tour, chapters, address, request):
    page = visit("index.html")
    for path in tour(chapters):
        page.goto(address + path)
        with page.expect_download() as download:
            page.click("a[download]")
        _, _, source = path.removesuffix(".html").partition("/")
        committed = with_its_pictures(request.config.rootpath / f"{source}.ipynb")
        assert json.loads(download.value.path().read_text("utf-8")) == committed


def test_works_from_files(visit, site, text_pages):
    chapter = next(path for path in text_pages if path.startswith("en/chapters/"))
    page = visit((site / "index.html").as_uri(), locale="en-GB")
    page.wait_for_url("file:**/en/book/en/index.html")
    page.wait_for_function(SETTLED)
    page.goto((site / chapter).as_uri())
    page.click("a.lang-switch")
    page.wait_for_url("file:**/zh/**")
    page.goto((site / "zh/search.html").as_uri() + "?q=" + quote("每字节所需的时间"))
    page.wait_for_selector("ul.search li > a")


@pytest.mark.parametrize(("language", "words"), [("en", "Show the"), ("zh", "显示")])
def test_a_hidden_cell_has_one_title(visit, language, words):
    page = visit(f"{language}/chapters/{language}/11_ranks_live.html")
    summary = page.locator("details.hide > summary").first
    shut = summary.inner_text().strip()
    assert shut.startswith(words) and "\n" not in shut
    summary.click()
    opened = summary.inner_text().strip()
    assert opened and not opened.startswith(words) and "\n" not in opened
