"""*You need*: a page names another only if it uses what that one introduces, and few of them.

What a page uses is taken from the page: terms of the glossary that the other is the first to
explain, names of the library that it is the first to import, or a name in backticks, a Greek
letter, beside the link.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = re.compile(r"\*\*You need\*\*\n\n((?:- .*\n?|  .*\n?)+)")
LINK = re.compile(r"\]\((\w+)\.ipynb\)")
IMPORT = re.compile(r"^\s*from (?:rankbook|originals)[\w.]* import (\([^)]*\)|.*)$", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`|([α-ω])")
# what every reader knows, and what every page uses
KNOWN = {"rank", "gradient", "token", "epoch", "padding", "checkpoint", "control", "activation"}
EVERYWHERE = {"others", "size", "prose", "Classifier", "TransformerConfig", "TransformerLM"}
MOST = 6  # pages behind one page, those behind its own included

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
LISTED = [page["file"] for part in TOC["parts"] for page in part["chapters"]]
PAGES = [Path(file).name for file in LISTED if file.startswith("chapters/")]  # as they are read


@cache
def cells(page: str) -> list[dict]:
    path = ROOT / "chapters" / "en" / f"{page}.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"]


@cache
def text(page: str, kind: str = "markdown") -> str:
    """All cells of a kind but the first, which only promises."""
    return "\n\n".join("".join(c["source"]) for c in cells(page)[1:] if c["cell_type"] == kind)


def listed(page: str) -> str:
    found = LIST.search("".join(cells(page)[0]["source"]))
    return found[1] if found else ""


def needs(page: str) -> list[str]:
    return LINK.findall(listed(page))


def behind(page: str) -> set[str]:
    """All pages that a reader of `page` is sent to, and where these send him."""
    return {page}.union(*map(behind, needs(page)))


def word(term: str) -> str:
    return rf"\b(?i:{re.escape(term[0])}){re.escape(term[1:])}(s|es|ed|d|ing)?\b"


@cache
def explained(page: str) -> set[str]:
    """The terms of the glossary that a page sets in italics: there they are explained."""
    topics = yaml.safe_load((ROOT / "book" / "glossary.yml").read_text("utf-8"))
    terms = {term["en"] for topic in topics for term in topic["terms"]} - KNOWN
    marked = " ".join(re.findall(r"\*([^*\n]+)\*", text(page)))
    return {term for term in terms if re.search(word(term), marked)}


@cache
def imported(page: str) -> set[str]:
    found = " ".join(IMPORT.findall(text(page, "code")))
    return set(re.findall(r"\w+", found)) - EVERYWHERE


def first(page: str, of) -> set[str]:
    """What no page before this one has."""
    return of(page).difference(*map(of, PAGES[: PAGES.index(page)]))


def used(page: str, other: str) -> set[str]:
    """What of `other` the page uses."""
    terms = {term for term in first(other, explained) if re.search(word(term), text(page))}
    beside = {a or b for a, b in NAMED.findall(listed(page))}
    both = (text(page) + text(page, "code"), text(other) + text(other, "code"))
    shown = {name for name in beside if all(name in each for each in both)}
    return terms | shown | (imported(page) & first(other, imported))


PAIRS = [(page, other) for page in PAGES for other in needs(page)]


def test_pages_name_others():
    assert len(PAIRS) > 40


@pytest.mark.parametrize(("page", "other"), PAIRS)
def test_a_page_uses_what_it_says_it_needs(page, other):
    assert used(page, other), f"{page} uses no term and no name that {other} introduces"


@pytest.mark.parametrize("page", PAGES)
def test_few_pages_stand_behind_one(page):
    assert len(behind(page) - {page}) <= MOST, sorted(behind(page))


def test_what_is_not_used_is_found():
    assert not used("12_all_reduce", "55_kubernetes")
