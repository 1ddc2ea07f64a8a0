"""The front page: a live failure, pictures that lead on, all chapters. And pages on paper."""

import pytest
import yaml

from tests.live.report import blocked, fails, raised
from tests.site.conftest import ROOT

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
WIDE = {"viewport": {"width": 1280, "height": 900}}
NARROW = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
front = pytest.mark.parametrize("page", [f"{code}/book/{code}/index.html" for code in ("en", "zh")])


@front
def test_the_live_failure_stands_in_the_first_screen(visit, page):
    shown = visit(page, **WIDE)
    report, works = shown.locator(".excerpt .traceback"), shown.locator(".excerpt .cell").nth(1)
    assert report.inner_text().startswith(fails(raised(1, "ValueError")))
    assert blocked(3, "all_reduce") in report.inner_text()
    assert works.locator(".traceback").count() == 0 and "[3]" in works.inner_text()
    for part in (shown.locator(".front-words pre"), report, works):
        box = part.bounding_box()
        assert box["y"] + box["height"] <= 900, part


@front
def test_it_shows_what_the_chapter_shows(visit, page, address):
    shown = visit(page)
    cells = shown.locator(".excerpt .cell").all_inner_texts()
    shown.goto(address + page.replace("/book/", "/chapters/").replace("index", "11_ranks_live"))
    chapter = shown.locator("article div.cell").all_inner_texts()
    assert len(cells) == 2 and set(cells) <= set(chapter)


@front
def test_every_chapter_is_named_and_three_pictures_lead_on(visit, page):
    shown, language = visit(page, **NARROW), page[:2]
    assert shown.locator(".front-pictures svg").count() == 3
    links = shown.eval_on_selector_all(".front-pictures a", "all => all.map(a => a.href)")
    assert len(set(links)) == 3
    listed = shown.eval_on_selector_all(".contents a", "all => all.map(a => a.href)")
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    files = [page["file"] for part in toc["parts"] for page in part["chapters"]]
    chapters = [file for file in files if file.startswith("chapters/")]  # in their order
    assert len(chapters) == len(list((ROOT / "chapters" / language).glob("*.ipynb")))
    stems = [link.rpartition("/")[2].removesuffix(".html") for link in listed]
    assert stems == [file.rpartition("/")[2] for file in chapters]
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(
    "page", ["en/chapters/en/24_bubble.html", "zh/chapters/zh/41_elastic.html"]
)
def test_on_paper_nothing_is_cut_off_and_nothing_asks_to_be_pressed(visit, page):
    shown = visit(page, viewport={"width": 720, "height": 1000})
    shown.emulate_media(media="print")
    cut = """all => all.filter(e => e.scrollWidth > e.clientWidth + 2
      || e.scrollHeight > e.clientHeight + 2).map(e => e.textContent.slice(0, 60))"""
    assert shown.eval_on_selector_all("article div.cell pre", cut) == []
    pressed = "article button, .bd-header-article button, .copybtn, .book-button, .moving-controls"
    visible = "all => all.filter(e => e.checkVisibility()).map(e => e.outerHTML.slice(0, 80))"
    assert shown.eval_on_selector_all(pressed, visible) == []


@pytest.mark.parametrize("page", ["en/chapters/en/24_bubble.html", "zh/chapters/zh/44_saving.html"])
def test_on_a_phone_no_code_lies_beyond_the_edge(visit, page):
    shown = visit(page, **NARROW)
    wider = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    assert shown.eval_on_selector_all("article div.cell_input pre", wider) == []
