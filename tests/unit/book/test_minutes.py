"""The minutes of a path are those of its pages, counted from their own length."""

import json
import re
from pathlib import Path

import pytest
from bookext import minutes
from bookext.words import words_of

ROOT = Path(__file__).resolve().parents[3]
ASKED = re.compile(r"\{minutes\}`([^`]+)`")
LINK = re.compile(r"\]\((?:\.\./\.\./chapters/\w+/)?(\w+)\.(?:ipynb|md)\)")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Write a page of a book of its own, and give its minutes."""
    monkeypatch.setattr(minutes, "ROOT", tmp_path)

    def written(text: str) -> float:
        path = tmp_path / "book" / "en" / "one.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return minutes.minutes_of("one")

    return written


def test_words_and_lines_are_counted(page):
    words, code = "word " * 360, "```bash\n" + "line\n" * 24 + "```\n"
    assert page(words) == pytest.approx(2)
    assert page(f"{words}\n\n{code}") == pytest.approx(4)


def test_what_nobody_reads_is_not_counted(page):
    assert page("---\nsource_sha: 1\n---\n" + "word " * 180) == pytest.approx(1)
    assert page("word " * 179 + "[word](a/long/address.md)") == pytest.approx(1)
    assert page("word " * 180 + "<!-- alt: not read -->") == pytest.approx(1)


def test_hidden_cells_are_not_counted():
    path = ROOT / "chapters" / "en" / "11_ranks_live.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    hidden = ["".join(c["source"]) for c in cells if "hide-cell" in c["metadata"].get("tags", ())]
    read = [text for _, text in minutes.parts("11_ranks_live")]
    assert len(read) + len(hidden) == len(cells) and not set(read) & set(hidden)


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ([1], "5 minutes"),
        ([22], "20 minutes"),
        ([118], "120 minutes"),
        ([121], "2 hours"),
        ([160], "2.5 hours"),
        ([61, 19, 40], "20–60 minutes"),
        ([19, 21], "20 minutes"),
        ([58, 152], "1–2.5 hours"),
    ],
)
def test_nobody_reads_by_the_minute(taken, said):
    assert minutes.said(taken, words_of("en")) == said


def test_a_page_that_is_not_there_is_one_sentence():
    with pytest.raises(LookupError, match="no page 'nowhere'"):
        minutes.minutes_of("nowhere")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_path_takes_the_minutes_of_the_pages_that_it_links(language):
    text = (ROOT / "book" / language / "reading.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|") and ASKED.search(line)]
    assert len(rows) >= 6
    for row in rows:
        (asked,) = ASKED.findall(row)
        if asked == "tutorials":
            assert LINK.findall(row) == ["from"]
        else:
            assert asked == "all" or asked.split() == LINK.findall(row), row


def test_each_tutorial_has_pages_of_its_own():
    lists = minutes.ways("tutorials")
    chapters = sorted(path.stem for path in (ROOT / "chapters" / "en").glob("T*.ipynb"))
    assert len(lists) == 6 and sorted(page for pages in lists for page in pages) == chapters
