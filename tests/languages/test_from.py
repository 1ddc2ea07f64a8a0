"""The page "You come from…": all names of the originals' listings, and links that lead to them."""

import re
from functools import cache
from pathlib import Path

import pytest
import typography
import yaml
from bookext import generated, origins

from tests.originals.listing import ORIGINALS

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "zh")
TEXTS = {text["file"]: text for text in origins.data()["texts"]}
FOUND = yaml.safe_load(Path(__file__).with_name("from_names.yml").read_text("utf-8"))
LISTED = {text: names.split(", ") for text, names in FOUND["names"].items()}
ORDINARY = set(FOUND["ordinary"].split())
ROWS = [pytest.param(row, id=f"{name[0]}: {row['then']}")
        for name, text in TEXTS.items() for row in text["rows"]]  # fmt: skip
CALLED_OR_SET = re.compile(r"([A-Za-z_]\w*)(?=\(|\s?=(?!=))|(?<!\w)(--[a-z]\w*)")
IMPORTED = re.compile(r"^\s*(?:from [\w.]+ )?import ([\w., ]+)|^class (\w+)", re.MULTILINE)
CHINESE = re.compile(r"[\u2e80-\uffef]")


@cache
def page(language: str) -> str:
    """The page's Markdown, its tables made."""
    source = (ROOT / "book" / language / "from.md").read_text("utf-8")
    return generated.MARK.sub(lambda mark: generated.PARTS[mark[1]](language, mark[2]), source)


def identifiers(listings: str) -> set[str]:
    """What is called, set, imported or defined; and options of commands."""
    listings = CHINESE.sub(" ", listings)
    found = {name for pair in CALLED_OR_SET.findall(listings) for name in pair}
    for pair in IMPORTED.findall(listings):
        found |= set(re.findall(r"[A-Za-z_]\w*", " ".join(pair)))
    return found - {""}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", LISTED)
def test_every_name_has_a_row(text, language):
    heading = f"## {TEXTS[text]['topic'][language]}\n"
    section = page(language).partition(heading)[2].partition("\n## ")[0]
    first = "\n".join(line.split(" | ")[0] for line in section.splitlines())
    missing = [name for name in LISTED[text] if f"`{name}`" not in first]
    assert not missing


@pytest.mark.parametrize("text", LISTED)
def test_no_name_of_the_listings_is_left_out(text):
    if not (ORIGINALS / text).exists():
        pytest.skip(f"the original's text {text} is not beside this checkout")
    names = set(LISTED[text])
    covered = names | {word for name in names for word in re.findall(r"[A-Za-z_]\w*", name)}
    found = identifiers((ORIGINALS / text).read_text("utf-8"))
    assert sorted(found - covered - ORDINARY) == []


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_link_leads_to_the_name(row, language):
    if "at" not in row:
        return
    chapter, _, name = row["at"].partition("#")
    cells = origins.cells(chapter, language)  # the chapter is there
    assert not name or (name in cells and cells[name].place != "at"), f"no place for {name!r}"
    sources = [cells[name].source] if name else [cell.source for cell in cells.values()]
    today = origins.name_today(row, language)
    assert any(today in source for source in sources), f"{row['at']} has no {today!r}"


@pytest.mark.parametrize("text", TEXTS)
def test_its_pages_are_there(text):
    for name in TEXTS[text]["pages"]:
        assert all((ROOT / "chapters" / one / f"{name}.ipynb").exists() for one in LANGUAGES), name


@pytest.mark.parametrize("row", ROWS)
def test_the_same_code_in_both_languages(row):
    english, chinese = (sorted(row[language].split("`")[1::2]) for language in LANGUAGES)
    assert english == chinese and ("at" not in row or english)


def test_the_same_table_in_both_languages():
    english, chinese = (
        [line.split(" | ")[0].replace("、", ", ") for line in page(language).splitlines()
         if line.startswith("| `")]
        for language in LANGUAGES
    )  # fmt: skip
    assert english == chinese and len(english) == len(ROWS)


def test_chinese_typography():
    avoided = typography.avoided_words(ROOT)
    said = [text["fate"]["zh"] for text in TEXTS.values()]
    said += [row["zh"] for text in TEXTS.values() for row in text["rows"]]
    assert not [(text, *mark) for text in said for mark in typography.marks(text, avoided)]
