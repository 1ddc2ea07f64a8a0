"""The diagrams: each file is what its description gives, and fits, in both languages."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import draw
import pytest
from diagrams.kit import Misdrawn, Picture, say

from plots.palette import VARIABLES

ROOT = Path(__file__).resolve().parents[3]
EACH = [(name, language) for name in draw.names() for language in draw.LANGUAGES]
SHOWN = re.compile(r"!\[([^\]]*)\]\([./\w]*pictures/(\w+)/([\w-]+)\.svg\)")
SVG = "{http://www.w3.org/2000/svg}"


def committed(name: str, language: str) -> str:
    return draw.path(name, language).read_text("utf-8")


@pytest.mark.parametrize(("name", "language"), EACH)
def test_the_file_is_what_its_description_gives(name, language):
    """Drawing it again also says whether its words fit and nothing covers anything."""
    assert committed(name, language) == draw.drawn(name, language), "run: python book/draw.py"


@pytest.mark.parametrize("name", draw.names())
def test_both_languages_have_the_same_things(name):
    def things(language):
        root = ElementTree.fromstring(committed(name, language))
        words = {f"{SVG}text", f"{SVG}tspan"}  # which may stand on more lines in one of them
        found = (element for element in root.iter() if element.tag not in words)
        return sorted((e.tag, e.get("fill", ""), e.get("stroke", "")) for e in found)

    assert things("en") == things("zh")


@pytest.mark.parametrize(("name", "language"), EACH)
def test_colours_words_and_size_are_the_books(name, language):
    text = committed(name, language)
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text)) <= VARIABLES.keys()
    assert min(map(float, re.findall(r'font-size="([\d.]+)"', text))) >= 13.5
    assert float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1]) <= 460


def cells(language: str) -> dict[tuple[str, str], str]:
    """The Markdown of chapters by page and cell, and of pages by their name."""
    found = {}
    for path in (ROOT / "chapters" / language).glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                found[path.stem, cell["id"]] = "".join(cell["source"])
    for path in (ROOT / "book" / language).rglob("*.md"):
        found[path.stem, ""] = path.read_text("utf-8")
    return found


def test_both_languages_show_the_same_pictures_each_its_own():
    shown = {}
    for language in draw.LANGUAGES:
        for place, text in cells(language).items():
            for alt, folder, name in SHOWN.findall(text):
                assert folder == language, f"{place} shows the picture of another language"
                assert len(alt) > 12, f"{place}: {name} says nothing to who cannot see it"
                assert draw.path(name, language).exists(), f"{place}: there is no {name}"
                shown.setdefault(language, []).append((place, name))
    assert shown["en"] and sorted(shown["en"]) == sorted(shown["zh"])
    assert {name for _, name in shown["en"]} >= set(draw.names()), "a picture that no page shows"


def picture(*things) -> str:
    """A small picture with what `things`, functions of it, place."""
    drawing = Picture("en", 30, 20)
    for thing in things:
        thing(drawing)
    return drawing.svg()


def test_a_thing_may_stand_within_another_one():
    svg = picture(
        lambda p: p.node(1, 1, 20, 12, "node 0"), lambda p: p.process(0, 3, 5, 10, 4, "rank 0")
    )
    assert "node 0" in svg and "rank 0" in svg


@pytest.mark.parametrize(
    ("things", "why"),
    [
        ([lambda p: p.step(1, 1, 6, 4, "more words than fit")], "needs"),
        ([lambda p: p.step(1, 1, 20, 2, "one", "two")], "needs"),
        ([lambda p: p.step(25, 1, 10, 4, "out")], "leaves the picture"),
        ([lambda p: p.step(1, 1, 10, 4, "a"), lambda p: p.step(8, 3, 10, 4, "b")], "overlap"),
        ([lambda p: p.step(1, 1, 10, 4, "a"), lambda p: p.words(10, 3, "over it")], "lies on"),
        ([lambda p: p.words(10, 3, "some words"), lambda p: p.words(11, 4, "others")], "overlap"),
        ([lambda p: p.words(10, 3, "some words"), lambda p: p.fault(9, 3)], "lies on a mark"),
        ([lambda p: through(p)], "goes through “between”"),
        ([lambda p: kinked(p)], "a kink"),
    ],
)
def test_what_nobody_could_read_is_refused(things, why):
    with pytest.raises(Misdrawn, match=why):
        picture(*things)


def through(p):
    """An arrow from one thing to another with a third between them."""
    one, other = p.step(1, 1, 5, 4, "a"), p.step(22, 1, 5, 4, "b")
    p.step(10, 1, 9, 4, "between")
    p.message(one, other)


def kinked(p):
    """An arrow between two places that are not quite opposite."""
    one, other = p.step(1, 1, 5, 4, "a"), p.step(22, 1, 5, 4, "b")
    p.message(one.port("right", 0.5), other.port("left", 0.6))


def test_words_are_measured_as_wide_as_they_may_become():
    long = say("a word", "一二三四五六七八九十一二三四五六七八九十")
    with pytest.raises(Misdrawn, match=r"\[zh\]"):
        drawing = Picture("zh", 30, 20)
        drawing.step(1, 1, 20, 4, long)
        drawing.svg()
