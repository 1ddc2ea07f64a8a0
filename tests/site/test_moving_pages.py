"""Every figure that moves is on its pages: in both languages, read from files, with its still."""

import re

import pytest
from bookext import moving

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
FIGURE = re.compile(
    r'<figure class="moving" data-moving="(\w+)">\s*<svg[^>]*aria-label="[^"]{20,}"'
)


def places(site, pages) -> dict[str, list[str]]:
    """The figures of each page that has some."""
    found = {path: FIGURE.findall((site / path).read_text("utf-8")) for path in pages}
    return {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_figure_is_on_one_page_with_its_scripts_and_no_others(site, text_pages, language):
    mine = [path for path in text_pages if path.startswith(f"{language}/")]
    placed = places(site, mine)
    assert sorted(name for names in placed.values() for name in names) == moving.names()
    for path in mine:
        loaded = re.findall(r"moving/(\w+)\.js", (site / path).read_text("utf-8"))
        assert sorted(loaded) == sorted(["kit", *placed[path]] if path in placed else []), path


def test_they_run_from_files(visit, site, text_pages):
    placed = places(site, text_pages)
    for path, names in placed.items():
        page = visit((site / path).as_uri(), viewport={"width": 360, "height": 740})
        for name in names:
            figure = page.locator(f'figure.moving[data-moving="{name}"]')
            figure.locator(".moving-drawing svg").wait_for()
            seen = "(name) => Moving.shown(name, Moving.chosen(name))"
            assert page.evaluate(seen, name), path
            words = figure.inner_text()
            assert bool(re.search(r"[\u4e00-\u9fff]", words)) == path.startswith("zh/"), path
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_without_scripts_the_still_is_there(visit, site, text_pages):
    for path, names in places(site, text_pages).items():
        page = visit((site / path).as_uri(), java_script_enabled=False)
        for name in names:
            still = page.locator(f'figure.moving[data-moving="{name}"] > svg')
            assert still.bounding_box()["height"] > 50, path
        page.close()
