"""The built pages, read as files: links, anchors, assets, languages, words."""

import json
import re
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bookext import redirects
from bs4 import BeautifulSoup

from tests.site.conftest import ROOT
from tests.site.downloads import with_its_pictures

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
LANGUAGES = {"en": "en", "zh": "zh-CN"}
FOREIGN = re.compile(r"(https?:)?//")
TERM = "checkpoint"  # which is the Chinese word, too, as the glossary says
CJK = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def soups(site, pages):
    return {page: BeautifulSoup((site / page).read_text("utf-8"), "html.parser") for page in pages}


def test_both_languages_have_the_same_pages(pages):
    english, chinese = (
        {page.replace(f"/{lang}/", "/")[2:] for page in pages if page.startswith(f"{lang}/")}
        for lang in LANGUAGES
    )
    assert english == chinese
    assert len(english) >= 7


def test_every_local_link_and_anchor_leads_somewhere(site, soups, text_pages):
    anchors = {
        site / page: {tag["id"] for tag in soup.find_all(id=True)} for page, soup in soups.items()
    }
    broken = []
    for page, soup in soups.items():
        links = {tag["href"] for tag in soup.find_all(["a", "link"], href=True)}
        assert links or page not in text_pages, f"{page} has no link"
        for link in links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or "_modules/" in parts.path:
                continue  # the pages with the source code are Sphinx's own
            target = (site / page).parent / unquote(parts.path) if parts.path else site / page
            target = target.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append(f"{page}: {link} leads nowhere")
            elif parts.fragment and unquote(parts.fragment) not in anchors[target]:
                broken.append(f"{page}: {link}: no such anchor")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_old_address_leads_to_a_page(site, pages, language):
    addresses = redirects.addresses(language)
    assert addresses
    for old, new in addresses.items():
        path = site / language / f"{old}.html"
        soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        target = path.parent / soup.find("a")["href"]
        assert target.resolve() == site / language / f"{new}.html"
        assert f"{language}/{new}.html" in pages
        assert soup.find("meta", content=f"0; url={soup.find('a')['href']}")
        assert soup.html["lang"] == LANGUAGES[language] and soup.title.text
        assert soup.find("meta", attrs={"name": "robots"})["content"] == "noindex"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_search_finds_an_old_address(site, language):
    index = (site / language / "searchindex.js").read_text("utf-8")
    for old, new in redirects.addresses(language).items():
        assert f'"{new}"' in index and f'"{old}"' not in index


def test_every_asset_is_there_and_ours(site, soups, text_pages):
    wrong = []
    for page, soup in soups.items():
        sources = [tag["src"] for tag in soup.find_all(["script", "img", "iframe"], src=True)]
        sources += [tag["href"] for tag in soup.find_all("link", rel=["stylesheet", "icon"])]
        assert sources or page not in text_pages, f"{page} has no asset"
        for source in sources:
            if FOREIGN.match(source):
                wrong.append(f"{page}: {source} is on another host")
            elif not source.startswith("data:"):
                path = (site / page).parent / unquote(urlsplit(source).path)
                if not path.exists():
                    wrong.append(f"{page}: {source} is missing")
    assert not wrong, "\n".join(wrong)


def test_style_sheets_load_nothing_from_elsewhere(site):
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        loaded = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)]*)\)", sheet.read_text("utf-8"))
        assert not loaded, f"{sheet.name}: {loaded}"


def test_language_is_declared(soups, text_pages):
    for page in text_pages:
        assert soups[page].html["lang"] == LANGUAGES[page.split("/")[0]], page


def test_only_a_book_with_an_address_says_where_it_stands(soups, text_pages):
    """A search engine wants absolute addresses: `html.baseurl` in _config.yml, or none."""
    base = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["html"]["baseurl"]
    for page in text_pages:
        links = soups[page].head.select("link[rel=alternate][hreflang], link[rel=canonical]")
        tags = sorted(link.get("hreflang", "canonical") for link in links)
        assert tags == (["canonical", "en", "x-default", "zh-CN"] if base else []), page
        assert all(link["href"].startswith(base) for link in links), page
        if base:
            assert base + page in [link["href"] for link in links]


def test_every_page_has_a_title_and_says_what_it_is_about(soups, text_pages):
    said = {}
    for page in text_pages:
        (about,) = soups[page].head.select("meta[name=description]")
        assert 10 <= len(about["content"]) <= 400, f"{page}: {about['content']}"
        assert bool(CJK.search(about["content"])) == page.startswith("zh/"), page
        said.setdefault(about["content"], []).append(page)
        assert soups[page].title.text.strip(), page
    assert not [pages for pages in said.values() if len(pages) > 1]


def test_images_have_a_size_before_they_are_there(soups, text_pages):
    for page in text_pages:
        for image in soups[page].find_all("img"):
            assert image.get("width") and image.get("height"), f"{page}: {image['src'][:80]}"


def test_switch_leads_to_the_twin(site, soups, text_pages):
    for page in text_pages:
        code, other = ("en", "zh") if page.startswith("en/") else ("zh", "en")
        (link,) = soups[page].select("a.lang-switch")
        target = ((site / page).parent / link["href"]).resolve()
        twin = page.replace(f"{code}/", f"{other}/")
        assert target == site / twin


def test_chinese_pages_have_chinese_words_around_them(soups, chinese):
    left = set()
    around = [page for page in soups if page.startswith("zh/")]  # the search page, too
    assert set(around) > set(chinese)
    for page in around:
        soup = soups[page]
        for tag in soup.find_all(True):
            if tag.find_parent(lang="en") or tag.get("lang") == "en":
                continue
            for name in ("title", "aria-label", "placeholder", "alt"):
                value = tag.get(name, "")
                name_only = re.fullmatch(
                    rf"({TERM}：)?rankbook[\w.]*", value
                )  # of a module, a class
                if re.search(r"[A-Za-z]{4}", value) and not CJK.search(value) and not name_only:
                    left.add(f"{page}: {name}={value!r}")
        for block in soup.select("nav, header, footer, .bd-header-article, .prev-next-area"):
            for text in block.stripped_strings:
                known = re.fullmatch(
                    rf"[\W\d]*|English|Ctrl|\.ipynb|JupyterLab|[%\w.]+(\(\))?|{TERM}：", text
                )
                if not known and not CJK.search(text):
                    left.add(f"{page}: {text!r}")
    assert not left, "\n".join(sorted(left))


def test_markup_is_rendered(soups, text_pages):
    """Beside Chinese punctuation ``**`` may stay as it is: CommonMark sees no end of the bold."""
    left = []
    for page in text_pages:
        blocks = soups[page].article.select("p, li, td, th, h1, h2, h3, dd")
        assert blocks, f"{page} has no text"
        for block in blocks:
            prose = "".join(
                text
                for text in block.find_all(string=True)
                if not text.find_parent(["code", "pre", "script"])
                and not text.find_parent(class_=["math", "english"])
            )
            left += [f"{page}: {prose[:80]}" for mark in ("**", "](", "`", "$") if mark in prose]
    assert not left, "\n".join(left)


def test_images_and_pictures_are_described(soups, text_pages):
    images = [(page, image) for page in text_pages for image in soups[page].find_all("img")]
    assert images
    for page, image in images:
        alt = image.get("alt", "")
        assert alt and not alt.endswith((".png", ".svg")), f"{page}: {image['src']}: {alt!r}"
    pictures = [(page, svg) for page in text_pages for svg in soups[page].select("svg[role=img]")]
    assert pictures
    for page, picture in pictures:
        assert picture["aria-label"].strip(), page
    assert not [page for page in text_pages if soups[page].select(".highlight-mermaid")]


def test_chapters_say_what_they_were_verified_with(soups, chapters):
    for page in chapters:
        (card,) = soups[page].select(".chapter-card.verified")
        unit = r"\d+ s\b" if page.startswith("en") else r"\d+ 秒"
        assert re.search(unit, card.text), page
        assert re.search(r"torch \d.* \d{4}-\d\d-\d\d", card.text), page


def test_chapters_show_what_their_cells_printed(soups, chapters):
    for page in chapters:
        outputs = soups[page].select(".cell_output")
        assert outputs, f"{page} was not executed"
        # What one language executed is shown in both: nothing may tell in whose folder it ran.
        told = [line for out in outputs for line in re.findall(r"chapters/(?:en|zh)\b.*", out.text)]
        assert not told, f"{page}: {told}"


def test_no_page_has_a_number(soups, text_pages):
    """The file names have: part and place. A number beside them would have to agree."""
    for page in text_pages:
        assert not soups[page].select(".section-number"), page


def test_download_is_the_committed_notebook_with_its_pictures(site, chapters, request):
    root = request.config.rootpath
    for page in chapters:
        language, _, path = page.removesuffix(".html").partition("/")
        copy = site / language / "_sources" / f"{path}.ipynb"
        downloaded = copy.read_text("utf-8")
        assert json.loads(downloaded) == with_its_pictures(root / f"{path}.ipynb")
        assert "book/pictures" not in downloaded, page


def test_both_languages_have_the_same_anchors(soups, english):
    for page in english:
        twin = page.replace("en/", "zh/")
        here, there = (
            [tag["id"] for tag in soups[p].find_all(id=re.compile(r"^at-"))] for p in (page, twin)
        )
        assert here == there, page
        assert here or not soups[page].article.select("h2, .cell"), (
            f"{page} has no place to land at"
        )
