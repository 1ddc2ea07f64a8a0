"""The check of links finds what leads nowhere, and only that."""

import json
from pathlib import Path

import links
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path):
    """A book of a chapter and two pages a language."""
    for language in ("en", "zh"):
        for folder in ("chapters", "book"):
            (tmp_path / folder / language).mkdir(parents=True)
        write_chapter(
            tmp_path, language, "# A ring\n\n## The `proof`, in *short*\n\n{#here}\nText."
        )
        (tmp_path / "book" / language / "index.md").write_text("# Front\n\n(top)=\n## Part\n")
        (tmp_path / "book" / language / "words.md").write_text("# Words\n\n<!-- glossary -->\n")
    (tmp_path / "book" / "glossary.yml").write_text("- terms: [{en: all-reduce (ring)}]\n")
    (tmp_path / "src" / "part").mkdir(parents=True)
    (tmp_path / "src" / "part" / "__init__.py").write_text("seven = 7\n")
    return tmp_path


def write_chapter(root: Path, language: str, text: str) -> None:
    cell = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": text}
    path = root / "chapters" / language / "11_ring.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))


def said(root: Path, text: str) -> list[str]:
    """What is said of the English page when it has the text."""
    (root / "book" / "en" / "more.md").write_text(f"# More\n\n{text}\n")
    return links.problems(root)


def test_the_books_links():
    assert not links.problems(ROOT)
    every = [
        link for f in links.files(ROOT) for _, t in links.texts(f, ROOT) for link in links.links(t)
    ]
    assert len(every) > 100


@pytest.mark.parametrize(
    "text",
    [
        "[a](../../chapters/en/11_ring.ipynb)",
        "[a](../../chapters/en/11_ring.ipynb#the-proof-in-short)",
        "[a](../../chapters/en/11_ring.ipynb#here)",
        "[a](../../chapters/en/11_ring.ipynb#at-1-2)",
        "[`a`](index.md#part) and [b](index.md#top)",
        "[a](words.md#term-all-reduce-ring)",
        "[a](words.md#part.seven)",
        "[a](#more)",
        ":::{card} A\n:link: ../../chapters/en/11_ring\n:link-type: doc\n:::",
        "[a](https://docs.python.org/nowhere.md#nothing)",
        "```python\nx[0](gone.md)\n```\n\nand `x[0](gone.md)`",
    ],
)
def test_a_good_link(root, text):
    assert said(root, text) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](gone.md)", "book/en/more.md: gone.md leads to no file"),
        ("Text\nand ![a](gone.png)", "gone.png leads to no file"),
        (":link: ../../chapters/en/01_ring", "01_ring leads to no file"),
        ("[a](../../chapters/zh/11_ring.ipynb)", "leads to the other language"),
        ("[a](index.md#parts)", "leads to no place: book/en/index.md has no 'parts'"),
        ("[a](words.md#term-ring)", "has no 'term-ring'"),
        ("[a](#nothing)", "has no 'nothing'"),
    ],
)
def test_a_broken_link_is_one_sentence(root, text, wrong):
    (problem,) = said(root, text)
    assert wrong in problem


def test_a_page_shows_the_pictures_in_its_own_language(root):
    for language in ("en", "zh"):
        picture = root / "book" / "pictures" / language / "ring.svg"
        picture.parent.mkdir(parents=True)
        picture.write_text("<svg/>")
    assert said(root, "![a ring](../pictures/en/ring.svg)") == []
    (problem,) = said(root, "![a ring](../pictures/zh/ring.svg)")
    assert "leads to the other language" in problem


def test_a_chapter_names_the_cell(root):
    write_chapter(root, "zh", "# 环\n\n见[别处](12_gone.ipynb)。")
    (problem,) = links.problems(root)
    assert problem == "chapters/zh/11_ring.ipynb, cell 'title': 12_gone.ipynb leads to no file"
