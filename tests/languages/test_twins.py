"""The English and the Chinese book correspond, and the check notices when they do not."""

import copy
import json
from pathlib import Path

import pytest
import twins
import yaml

ROOT = Path(__file__).resolve().parents[2]


def markdown(cell_id: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def code(cell_id: str, source: str) -> dict:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "source": source,
        "execution_count": None,
        "outputs": [],
    }


@pytest.fixture
def pair(tmp_path):
    """A small book of one chapter and one page that corresponds, and a way to change it."""
    english = {
        "cells": [
            markdown("title", "# A ring\n\nText."),
            code("ring", "print(1)"),
            markdown("proof", "## The proof\n\n```python\nx = 1\n```"),
        ],
        "metadata": twins.METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    chinese = copy.deepcopy(english)
    chinese["cells"][0]["source"] = "# 环\n\n正文。"
    chinese["cells"][2]["source"] = "## 证明\n\n```python\nx = 1\n```"
    for language, notebook in (("en", english), ("zh", chinese)):
        (tmp_path / "chapters" / language).mkdir(parents=True)
        (tmp_path / "book" / language).mkdir(parents=True)
        write(tmp_path, language, notebook)
    (tmp_path / "book" / "en" / "index.md").write_text("# Book\n\n## Part\n", "utf-8")
    (tmp_path / "book" / "zh" / "index.md").write_text("# 书\n\n## 部分\n", "utf-8")
    twins.record(tmp_path)
    return tmp_path


def write(root: Path, language: str, notebook: dict) -> None:
    path = root / "chapters" / language / "01_ring.ipynb"
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1), "utf-8")


def change(root: Path, language: str, position: int, **changes) -> list[str]:
    """Change a cell of one language; give what the check says."""
    path = root / "chapters" / language / "01_ring.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    notebook["cells"][position].update(changes)
    write(root, language, notebook)
    return twins.problems(root)


def test_the_book_corresponds():
    assert not twins.problems(ROOT)


def test_tables_of_contents_are_twins():
    english, chinese = (
        yaml.safe_load((ROOT / path).read_text("utf-8"))
        for path in ("_toc.yml", "book/zh/_toc.yml")
    )
    files = [pages(toc) for toc in (english, chinese)]
    assert [name.replace("/en/", "/zh/") for name in files[0]] == files[1]
    chapters = {f"chapters/en/{path.stem}" for path in (ROOT / "chapters/en").glob("*.ipynb")}
    assert chapters == {name for name in files[0] if name.startswith("chapters/")}


def pages(toc: dict) -> list[str]:
    return [toc["root"], *(page["file"] for part in toc["parts"] for page in part["chapters"])]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_front_page_leads_to_every_chapter(language):
    page = (ROOT / "book" / language / "index.md").read_text("utf-8")
    for chapter in (ROOT / "chapters" / language).glob("*.ipynb"):
        assert f"../../chapters/{language}/{chapter.stem}" in page


def test_recorded_pair_corresponds(pair):
    assert twins.problems(pair) == []


def test_english_text_changed_alone(pair):
    (problem,) = change(pair, "en", 0, source="# A ring\n\nOther text.")
    assert "'title' changed in English alone" in problem


def test_english_page_changed_alone(pair):
    (pair / "book" / "en" / "index.md").write_text("# Book\n\nText.\n\n## Part\n", "utf-8")
    (problem,) = twins.problems(pair)
    assert problem.startswith("book/zh/index.md: changed in English alone")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_code_changed_alone(pair, language):
    (problem,) = change(pair, language, 1, source="print(1) ")
    assert "'ring' has other code" in problem


def test_tags_changed_alone(pair):
    problems = change(pair, "zh", 1, metadata={"tags": ["raises-exception"]})
    assert any("'ring' has other tags" in problem for problem in problems)


def test_heading_changed_alone(pair):
    (problem,) = change(pair, "zh", 2, source="### 证明\n\n```python\nx = 1\n```")
    assert "'proof' has other headings" in problem


def test_fenced_code_changed_alone(pair):
    (problem,) = change(pair, "zh", 2, source="## 证明\n\n```python\nx = 2\n```")
    assert "'proof' has other fenced blocks" in problem


def test_cell_renamed_alone(pair):
    (problem,) = change(pair, "zh", 1, id="circle")
    assert "the cells differ, first at 'ring'" in problem


def test_committed_outputs(pair):
    output = {"output_type": "stream", "name": "stdout", "text": "1"}
    problems = change(pair, "en", 1, outputs=[output])
    assert problems == ["chapters/en/01_ring.ipynb: cell 'ring' has committed outputs"]


def test_allow_errors_and_other_metadata(pair):
    path = pair / "chapters" / "en" / "01_ring.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"]["execution"] = {"allow_errors": True}
    write(pair, "en", notebook)
    (problem,) = twins.problems(pair)
    assert "metadata is not exactly" in problem


def test_chapter_without_twin(pair):
    (pair / "chapters" / "zh" / "01_ring.ipynb").unlink()
    assert twins.problems(pair) == ["chapters: 01_ring.ipynb is there in one language only"]


@pytest.mark.parametrize("cell_id", ["a8d2bba8", "3f1c9a52-77aa-4d1e", "X"])
def test_cell_ids_have_a_meaning(pair, cell_id):
    change(pair, "en", 1, id=cell_id)
    assert any("says nothing" in problem for problem in change(pair, "zh", 1, id=cell_id))
