"""What a change reaches, in this repository and in a small one."""

import json
import subprocess

import pytest

from tests import changed
from tests.changed import ROOT, reach

pytestmark = pytest.mark.slow  # reads all tests


def test_a_chapter_reaches_itself_and_the_tests_that_name_it():
    for language in ("en", "zh"):
        found = reach({ROOT / "chapters" / language / "61_tensor_parallel.ipynb"})
        assert found.chapters == ["chapters/en/61_tensor_parallel.ipynb"]
        assert "tests/distributed/test_tensor_parallel_chapter.py" in found.tests
        assert "tests/distributed/test_join.py" not in found.tests


def test_a_module_reaches_what_imports_it_through_others():
    found = reach({ROOT / "src/rankbook/parallel/pipeline/schedules.py"})
    assert "tests/unit/parallel/pipeline/test_schedules.py" in found.tests
    assert "tests/unit/parallel/trials/test_variants.py" in found.tests
    assert "tests/distributed/test_mesh.py" in found.left
    assert "chapters/en/11_ranks_live.ipynb" not in {*found.chapters, *found.left}


def test_the_chapters_that_name_it_come_first_and_no_more_than_fit():
    found = reach({*(ROOT / "src/rankbook/parallel/mesh").rglob("*.py")})
    assert "chapters/en/62_three_dimensions.ipynb" in {*found.chapters, *found.left}
    costs = [changed.cost(name.split("/")[-1].removesuffix(".ipynb")) for name in found.chapters]
    assert len(costs) == 1 or sum(costs) <= changed.SECONDS
    everything = reach({*(ROOT / "src/rankbook/core").rglob("*.py")})
    assert any(name.startswith("chapters/") for name in everything.left)


def test_modules_of_the_book_are_followed():
    assert "tests/unit/book/test_fingerprint.py" in reach({ROOT / "book/library.py"}).tests


def test_what_looks_at_every_file_is_always_run():
    assert reach({ROOT / "CHANGELOG.md"}).tests == changed.ALWAYS


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A repository with one module and one chapter; a function that writes both."""
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    module, chapter = tmp_path / "src/module.py", tmp_path / "chapter.ipynb"

    def write(docstring: str, code: str, text: str, cell: str) -> None:
        module.write_text(f'"""{docstring}"""\n\nx = {code}\n')
        cells = [{"cell_type": "markdown", "source": text}, {"cell_type": "code", "source": cell}]
        chapter.write_text(json.dumps({"cells": cells}))

    write("one", "1", "one", "1")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return write


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (("one", "1", "one", "1"), set()),
        (("two", "1", "two", "1"), set()),
        (("one", "2", "one", "1"), {"module.py"}),
        (("one", "1", "one", "2"), {"chapter.ipynb"}),
    ],
    ids=["nothing", "texts", "code", "a cell"],
)
def test_code_counts_and_texts_do_not(small, written, names):
    small(*written)
    assert {path.name for path in changed.changed("HEAD")} == names


def test_new_and_removed_files_count(small, tmp_path):
    (tmp_path / "src/module.py").unlink()
    (tmp_path / "new.py").touch()
    assert {path.name for path in changed.changed("HEAD")} == {"module.py", "new.py"}


def test_a_picture_is_no_text(small, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xfe\xfe")
    assert {path.name for path in changed.changed("HEAD")} == {"picture.png"}


def test_a_commit_that_is_none_is_said(small):
    with pytest.raises(SystemExit, match=r"make test-change: .*nowhere"):
        changed.changed("nowhere")
