"""The pages of all parts: short, one idea each, and no term before it is introduced."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TOPICS = {  # of the glossary: those whose terms a part, or two parts, introduce
    "1T": ("Processes and groups", "Collectives", "Data parallelism"),
    "2": ("Pipelines and other model parallelism",),
    "3": ("Speed and memory",),
    "45": ("Failures and clusters",),
    "6": ("Models larger than one device",),
}
LATER = {  # terms of these topics that only later parts use
    "1T": {"device mesh"},
    "2": {"activation checkpointing"},
    "3": set(),
    "45": set(),
    "6": set(),
}


def pages(part: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "chapters" / "en").glob(f"[{part}]*.ipynb"))


SHORT = [page for part in (*TOPICS, "A") for page in pages(part)]


def cells(language: str, page: str) -> list[dict]:
    path = ROOT / "chapters" / language / f"{page}.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"]


def text(cell: dict) -> str:
    return "".join(cell["source"])


UNREAD = r"```.*?```|<!--.*?-->|!\[[^]]*\]\([^)]*\)|`[^`]*`|\]\([^)]*\)"


def prose(cell: dict) -> str:
    """A Markdown cell as it is read: without pictures and their alternatives, comments, addresses
    and code."""
    if cell["cell_type"] != "markdown":
        return ""
    kept = re.sub(UNREAD, " ", text(cell), flags=re.DOTALL)
    return re.sub(r"\s+", " ", kept)


def test_the_parts_are_there():
    assert len(pages("1")) >= 8 and pages("1")[0] == "11_ranks_live"
    assert len(pages("2")) >= 6 and pages("2")[0] == "21_pipelines"
    assert len(pages("3")) == 8 and pages("3")[0] == "31_where_the_time_goes"
    assert len(pages("4")) == 8 and pages("4")[0] == "41_elastic"
    assert len(pages("5")) == 5 and pages("5")[0] == "51_slurm"
    assert len(pages("6")) >= 3 and pages("6")[0] == "61_tensor_parallel"
    assert len(pages("T")) == 14 and pages("T")[0] == "T11_pipe_and_ddp"
    assert pages("A") == ["A2_one_controller"]


@pytest.mark.parametrize("page", SHORT)
def test_a_page_is_short(page):
    english = cells("en", page)
    assert len(english) <= 45
    code = [cell for cell in english if cell["cell_type"] == "code"]
    long = [cell["id"] for cell in code if len(text(cell).splitlines()) > 20]
    assert code and not long, f"cells of more than 20 lines: {long}"
    words = sum(len(prose(cell).split()) for cell in english)
    assert words <= 1500


@pytest.mark.parametrize("page", SHORT)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_four_exercises_with_executed_solutions(language, page):
    found = cells(language, page)
    asked = sum(len(re.findall(r"^\*\*\d\.\*\*", text(cell), re.MULTILINE)) for cell in found)
    solved = [cell for cell in found if "hide-cell" in cell["metadata"].get("tags", [])]
    assert asked >= 4 and len(solved) >= asked


def terms(part: str) -> list[str]:
    topics = yaml.safe_load((ROOT / "book" / "glossary.yml").read_text("utf-8"))
    chosen = [topic for topic in topics if topic["en"] in TOPICS[part]]
    assert len(chosen) == len(TOPICS[part])
    return [term["en"] for topic in chosen for term in topic["terms"]]


def spelling(term: str) -> str:
    """A pattern for the term, at the start of a sentence as well, and in its plural."""
    first = f"[{term[0].upper()}{term[0]}]" if term[0].islower() else term[0]
    return rf"\b{first}{re.escape(term[1:])}(s|es|ed|d|ing)?\b"


def first_use(part: str, term: str) -> tuple[str, dict] | None:
    """The page and the cell in which a reader of the part meets the term first; the cards of a page
    only promise, so its first cell does not count."""
    word = re.compile(spelling(term))
    for page in pages(part):
        for cell in cells("en", page)[1:]:
            if word.search(prose(cell)):
                return page, cell
    return None


INTRODUCED = [(part, term) for part in TOPICS for term in sorted(set(terms(part)) - LATER[part])]


@pytest.mark.parametrize("part", TOPICS)
def test_terms_of_later_parts(part):
    assert {term for term in terms(part) if first_use(part, term) is None} == LATER[part]


@pytest.mark.parametrize(("part", "term"), INTRODUCED)
def test_a_term_is_introduced_where_it_is_first_used(part, term):
    found = first_use(part, term)
    assert found, f"{term!r} is never used in Part {part}"
    page, cell = found
    marked = re.compile(rf"\*[^*]*{spelling(term)}[^*]*\*")
    assert marked.search(prose(cell)), f"{term!r} comes unexplained in {page}, cell {cell['id']}"
