"""The English and the Chinese book correspond, and the check notices when they do not."""

import copy
import json
from pathlib import Path

import correspondence
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
        "metadata": correspondence.METADATA,
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
    (tmp_path / "book" / "glossary.yml").write_text("[]")
    (tmp_path / "book" / "words.yml").write_text("zh: {}\ntheme_zh: {}\n")
    twins.record(tmp_path, "01_ring")
    twins.record(tmp_path, "index")
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
    return correspondence.problems(root)


def test_the_book_corresponds():
    assert not correspondence.problems(ROOT)


def test_tables_of_contents_are_twins():
    english, chinese = (
        yaml.safe_load((ROOT / path).read_text("utf-8"))
        for path in ("_toc.yml", "book/zh/_toc.yml")
    )
    files = [pages(toc) for toc in (english, chinese)]
    assert [name.replace("/en/", "/zh/") for name in files[0]] == files[1]
    chapters = {f"chapters/en/{path.stem}" for path in (ROOT / "chapters/en").glob("*.ipynb")}
    assert chapters == {name for name in files[0] if name.startswith("chapters/")}
    written = {f"book/en/{name[:-3]}" for name in correspondence.names(ROOT, "book", "en")}
    assert written == {name for name in files[0] if name.startswith("book/")}


def test_chapters_are_named_by_part_and_place():
    """The first digit of a name is its part, and names are in order; the tutorials come in the
    order of their texts, whatever their names."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    parts = {part["caption"]: [Path(page["file"]).name for page in part["chapters"]]
             for part in toc["parts"]}  # fmt: skip
    assert len(parts.pop("The six tutorials, today")) >= 6
    numbered = [names for names in parts.values() if names[0][0].isdigit()]
    assert len(numbered) >= 5
    for number, names in enumerate(numbered, 1):
        assert names == sorted(names) and {name[0] for name in names} == {str(number)}
    assert "numbered" not in (ROOT / "_toc.yml").read_text("utf-8")


def pages(toc: dict) -> list[str]:
    listed = [page for part in toc["parts"] for page in part["chapters"]]
    every = [one for page in listed for one in (page, *page.get("sections", []))]
    return [toc["root"], *(page["file"] for page in every)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_front_page_leads_to_every_chapter(language):
    page = (ROOT / "book" / language / "index.md").read_text("utf-8")
    chapters = list((ROOT / "chapters" / language).glob("*.ipynb"))
    assert chapters
    for chapter in chapters:
        assert f"../../chapters/{language}/{chapter.stem}" in page


def test_recorded_pair_corresponds(pair):
    assert correspondence.problems(pair) == []


def test_english_text_changed_alone(pair):
    (problem,) = change(pair, "en", 0, source="# A ring\n\nOther text.")
    assert "'title' changed in English alone" in problem


def test_english_page_changed_alone(pair):
    (pair / "book" / "en" / "index.md").write_text("# Book\n\nText.\n\n## Part\n", "utf-8")
    (problem,) = correspondence.problems(pair)
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
    (problem,) = correspondence.problems(pair)
    assert "metadata is not exactly" in problem


def test_chapter_without_twin(pair):
    (pair / "chapters" / "zh" / "01_ring.ipynb").unlink()
    assert correspondence.problems(pair) == [
        "chapters: 01_ring.ipynb is there in one language only"
    ]


@pytest.mark.parametrize("cell_id", ["a8d2bba8", "3f1c9a52-77aa-4d1e", "X"])
def test_cell_ids_have_a_meaning(pair, cell_id):
    change(pair, "en", 1, id=cell_id)
    assert any("says nothing" in problem for problem in change(pair, "zh", 1, id=cell_id))


def cells(root: Path, language: str) -> list[dict]:
    path = root / "chapters" / language / "01_ring.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"]


def rewrite(root: Path, language: str, *new: dict) -> None:
    path = root / "chapters" / language / "01_ring.ipynb"
    write(root, language, json.loads(path.read_text("utf-8")) | {"cells": list(new)})


@pytest.mark.parametrize(("source", "other"), [("en", "zh"), ("zh", "en")])
def test_sync_copies_code_and_leaves_text(pair, source, other):
    title, ring, proof = cells(pair, source)
    texts = [cell for cell in cells(pair, other) if cell["cell_type"] == "markdown"]
    tagged = code("new", "print(3)") | {"metadata": {"tags": ["raises-exception"]}}
    output = {"output_type": "stream", "name": "stdout", "text": "3"}
    rewrite(
        pair, source, title, tagged | {"outputs": [output]}, proof, ring | {"source": "print(2)"}
    )
    assert "2 code cells" in twins.sync(pair, "01_ring", source)
    assert [cell["id"] for cell in cells(pair, other)] == ["title", "new", "proof", "ring"]
    assert cells(pair, other)[1] == tagged
    assert [cell for cell in cells(pair, other) if cell["cell_type"] == "markdown"] == texts
    assert correspondence.problems(pair) == []


def test_sync_takes_out_what_is_gone(pair):
    title, _, proof = cells(pair, "en")
    rewrite(pair, "en", title, proof)
    twins.sync(pair, "01_ring")
    assert correspondence.problems(pair) == []


def test_sync_brings_a_new_text_to_be_translated(pair):
    title, ring, proof = cells(pair, "en")
    rewrite(pair, "en", title, ring, markdown("more", "Another one."), proof)
    twins.sync(pair, "01_ring")
    (problem,) = correspondence.problems(pair)
    assert "'more' has no recorded hash" in problem


def test_sync_keeps_a_text_that_the_other_language_lacks(pair):
    title, ring, proof = cells(pair, "zh")
    rewrite(pair, "zh", title, ring, markdown("more", "还有。"), proof)
    twins.sync(pair, "01_ring")
    assert [cell["id"] for cell in cells(pair, "zh")] == ["title", "ring", "more", "proof"]


def test_sync_writes_the_notebook_of_a_new_chapter(pair):
    (pair / "chapters" / "zh" / "01_ring.ipynb").unlink()
    twins.sync(pair, "01_ring")
    problems = correspondence.problems(pair)
    assert len(problems) == 2 and all("no recorded hash" in problem for problem in problems)


def test_record_blesses_one_cell(pair):
    title, ring, proof = cells(pair, "en")
    rewrite(pair, "en", title | {"source": "# A circle"}, ring, proof | {"source": "## Why\n"})
    change(pair, "zh", 2, source="## 为何\n")
    assert twins.record(pair, "01_ring", "proof") == "01_ring: 1 cells recorded"
    (problem,) = correspondence.problems(pair)
    assert "'title' changed in English alone" in problem
    twins.record(pair, "chapters/zh/01_ring.ipynb")
    assert correspondence.problems(pair) == []


def test_record_leaves_other_chapters_and_pages_alone(pair):
    for language in ("en", "zh"):
        other = pair / "chapters" / language / "02_other.ipynb"
        other.write_text((pair / "chapters" / language / "01_ring.ipynb").read_text("utf-8"))
    other = pair / "chapters" / "en" / "02_other.ipynb"
    notebook = json.loads(other.read_text("utf-8"))
    notebook["cells"][0]["source"] = "# Other"
    notebook["cells"][1]["execution_count"] = 3
    other.write_text(json.dumps(notebook))
    (pair / "book" / "en" / "index.md").write_text("# Books\n\n## Part\n", "utf-8")
    before = other.read_text("utf-8")
    twins.record(pair, "01_ring")
    assert other.read_text("utf-8") == before
    assert len(correspondence.problems(pair)) == 3


def test_pages_in_folders_correspond_too(pair):
    for language, title in (("en", "# Data"), ("zh", "# 数据")):
        (pair / "book" / language / "api").mkdir()
        (pair / "book" / language / "api" / "data.md").write_text(f"{title}\n", "utf-8")
    (problem,) = correspondence.problems(pair)
    assert problem.startswith("book/zh/api/data.md: changed in English alone")
    assert twins.record(pair, "api/data") == "api/data: recorded"
    assert correspondence.problems(pair) == []
    (pair / "book" / "zh" / "api" / "data.md").unlink()
    assert correspondence.problems(pair) == ["book: api/data.md is there in one language only"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--sync 02_ring", "there is no chapter or page '02_ring'; there is 01_ring"),
        ("--record nothing", "there is no chapter or page 'nothing'"),
        (
            "--record 01_ring tittle",
            "01_ring has no text 'tittle' in both languages; there is title",
        ),
        ("--record 01_ring ring", "01_ring has no text 'ring' in both languages"),
        ("--record index title", "index is a page: record it as a whole"),
        ("--sync index", "index is a page: --sync copies code cells"),
        ("--from zh", "name a chapter: --sync CHAPTER"),
        ("--record 01_ring title proof", "one cell of it at most"),
    ],
)
def test_a_wrong_name_is_one_sentence(pair, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        twins.main(arguments.split(), pair)
    assert ended.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in last


def test_command_line_says_what_it_did(pair, capsys):
    assert twins.main(["--sync", "01_ring", "--from", "zh"], pair) == 0
    assert twins.main(["--record", "01_ring", "title"], pair) == 0
    said = capsys.readouterr().out
    assert "01_ring: 0 code cells written in English" in said
    assert "01_ring: 1 cells recorded" in said and "The languages correspond." in said
