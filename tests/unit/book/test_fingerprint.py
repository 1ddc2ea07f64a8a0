"""A chapter's key changes with what its outputs depend on, and with nothing else."""

import json
from pathlib import Path

import fingerprint
import pytest
from fingerprint import Keys, RememberedKeys

FILES = {
    "src/lib/__init__.py": "",
    "src/lib/ring.py": '"""A ring."""\nfrom lib import shift\ndef turn():\n    """Once."""\n',
    "src/lib/shift.py": "by = 1\n",
    "src/lib/other.py": '"""Another."""\n\ndef other():\n    """It."""\n    return 2\n',
    "src/lib/tools/__init__.py": "",
    "src/lib/tools/start.sh": "echo 1\n",
    "src/lib/tools/start.py": "import subprocess\n",
    "launch/fixed.sbatch": "srun\n",
    "book/results/ring-cpu-2.json": "{}",
    "book/results/ring_many-cpu-2.json": "{}",
    "book/results/session.json": "{}",
    "book/results/chapters.json": "[]",
}
CHAPTERS = {
    "ring": "from lib import ring",
    "other": "from lib import other\nplots.recorded('ring')",
    "shown": "from lib import other\nplots.listing(other.other)",
    "unclear": "from lib import other\nplots.listing(something)",
    "computed": "from lib.tools import start\nplots.recorded(name)",
    "bash": "%%cluster\nsbatch launch/fixed.sbatch || cat session.json",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for language in ("en", "zh"):
        (tmp_path / "chapters" / language).mkdir(parents=True)
        for name, source in CHAPTERS.items():
            write_chapter(tmp_path, name, source, language=language)
    return tmp_path


def write_chapter(root: Path, name, source, text="Text.", language="en", **metadata) -> None:
    cells = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": text},
        {"cell_type": "code", "id": "part", "metadata": metadata, "source": [source]},
    ]
    path = root / "chapters" / language / f"{name}.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}}))


def keys(root: Path) -> dict[str, str]:
    found = Keys(root)
    return {name: found.of(root / "chapters" / "en" / f"{name}.ipynb") for name in CHAPTERS}


def changed(root: Path, name: str, text: str) -> set[str]:
    """The chapters whose keys change when the file has this text."""
    before = keys(root)
    (root / name).write_text(text)
    after = keys(root)
    return {chapter for chapter in CHAPTERS if before[chapter] != after[chapter]}


def test_nothing_changed(root):
    assert keys(root) == keys(root)
    assert len(set(keys(root).values())) == len(CHAPTERS)


def test_words_about_code_change_nothing(root):
    code = FILES["src/lib/ring.py"]
    assert changed(root, "src/lib/ring.py", code.replace("A ring", "The ring") + "# so\n") == set()


def test_code_changes_who_imports_it(root):
    assert changed(root, "src/lib/ring.py", FILES["src/lib/ring.py"] + "x = 1\n") == {"ring"}
    assert changed(root, "src/lib/shift.py", "by = 2\n") == {"ring"}
    assert changed(root, "src/lib/other.py", "def other(): ...\n") == {"other", "shown", "unclear"}


def test_words_count_where_they_are_shown(root):
    text = FILES["src/lib/other.py"].replace("It.", "Something else.")
    assert changed(root, "src/lib/other.py", text) == {"shown", "unclear"}


def test_words_count_where_code_reads_them(root):
    (root / "src/lib/tools/helped.py").write_text('"""Help."""\nprint(__doc__)\n')
    write_chapter(root, "ring", "from lib.tools import helped, start")
    text = '"""Words that somebody beside it may read."""\nimport subprocess\n'
    assert changed(root, "src/lib/tools/start.py", text) == {"ring", "computed"}


def test_files_beside_a_module(root):
    assert changed(root, "src/lib/tools/start.sh", "echo 2\n") == {"computed"}


def test_results_that_are_named(root):
    assert changed(root, "book/results/ring-cpu-2.json", "[]") == {"other", "computed"}
    assert changed(root, "book/results/ring_many-cpu-2.json", "[]") == {"computed"}
    assert changed(root, "book/results/session.json", "[]") == {"bash", "computed"}
    assert changed(root, "book/results/chapters.json", "[1]") == set(), "for the cards only"


def test_launch_files_that_are_named(root):
    assert changed(root, "launch/fixed.sbatch", "srun -l\n") == {"bash"}


def test_a_new_module_changes_nothing(root):
    assert changed(root, "src/lib/new.py", "x = 1\n") == set()


def test_own_cells(root):
    before = keys(root)["ring"]
    write_chapter(root, "ring", CHAPTERS["ring"], "Another text.")
    assert keys(root)["ring"] == before, "a page's text is not executed"
    write_chapter(root, "ring", CHAPTERS["ring"], tags=["raises-exception"])
    tagged = keys(root)["ring"]
    write_chapter(root, "ring", CHAPTERS["ring"] + "\n")
    assert len({before, tagged, keys(root)["ring"]}) == 3


def test_the_language_is_not_seen(root):
    found = Keys(root)
    for name in CHAPTERS:
        english, chinese = (root / "chapters" / lang / f"{name}.ipynb" for lang in ("en", "zh"))
        assert found.of(english) == found.of(chinese)


@pytest.mark.parametrize("what", ["data", "version", "prefix"])
def test_the_machine_counts(root, monkeypatch, what):
    before = keys(root)
    if what == "data":
        monkeypatch.setenv("RANKBOOK_DATA", "/elsewhere")
    elif what == "version":
        monkeypatch.setattr(fingerprint, "versions", lambda: ["torch==0"])
    else:
        monkeypatch.setattr(fingerprint.sys, "prefix", "/elsewhere")
    assert not set(before.values()) & set(keys(root).values())


def test_pages_show_words_and_only_their_language(root):
    (root / "_config.yml").write_text("")
    (root / "_toc.yml").write_text("")
    for language in ("en", "zh"):
        (root / "book" / language).mkdir()
        (root / "book" / language / "index.md").write_text("# A")
    before = [fingerprint.page_key(root, language) for language in ("en", "zh")]
    (root / "book" / "results" / "long_tests.json").write_text("{}")
    assert [fingerprint.page_key(root, language) for language in ("en", "zh")] == before
    (root / "book" / "zh" / "index.md").write_text("# B")
    one = [fingerprint.page_key(root, language) for language in ("en", "zh")]
    assert one[0] == before[0] and one[1] != before[1]
    (root / "src" / "lib" / "other.py").write_text('"""Other words."""\n')
    both = [fingerprint.page_key(root, language) for language in ("en", "zh")]
    assert both[0] != one[0] and both[1] != one[1]


@pytest.mark.parametrize(
    ("name", "text", "stays"),
    [
        ("book/en/index.md", "# A\n\nOther words.\n", True),
        ("book/en/index.md", "# B\n\nWords.\n", False),
        ("book/en/index.md", "# A\n\n(here)=\nWords.\n", False),
        ("book/en/index.md", "# A\n\n[Words]{#here}.\n", False),
        ("book/en/more.md", "Words.\n", False),
        ("book/words.yml", "en: {}\n", False),
    ],
)
def test_pages_are_kept_while_no_other_page_may_speak_of_what_changed(root, name, text, stays):
    (root / "book" / "en").mkdir()
    (root / "book" / "en" / "index.md").write_text("# A\n\nWords.\n")
    before = fingerprint.frame_key(root, "en", [])
    (root / name).write_text(text)
    assert (fingerprint.frame_key(root, "en", []) == before) == stays


def test_pages_are_kept_while_a_chapter_has_the_same_cells_and_headings(root):
    def key(**new):
        write_chapter(root, "ring", **{"source": CHAPTERS["ring"], **new})
        return fingerprint.frame_key(root, "en", [root / "an-execution"])

    before = key(text="# A ring\n\nText.")
    assert key(text="# A ring\n\nOther text.") == before
    assert key(text="# Rings\n\nText.") != before
    assert fingerprint.frame_key(root, "en", [root / "another"]) != before


def test_remembered_keys_are_the_same(root, monkeypatch):
    paths = sorted((root / "chapters").rglob("*.ipynb"))

    def both():
        fresh = Keys(root)
        wanted = {path: fresh.of(path) for path in paths}
        assert RememberedKeys(root, root / "_build" / "keys.json").of(paths) == wanted
        return wanted

    before = both()
    remembered = root / "_build" / "keys.json"
    remembered.write_text(remembered.read_text()[:100])  # a build was killed while it wrote
    assert both() == before
    (root / "src" / "lib" / "shift.py").write_text("by = 2\n")
    (root / "book" / "results" / "session.json").write_text("[]")
    after = both()
    assert sum(before[path] != after[path] for path in paths) >= 4
    write_chapter(root, "ring", CHAPTERS["ring"], text="Other words.")
    monkeypatch.setattr(fingerprint, "Keys", None)
    assert RememberedKeys(root, root / "_build" / "keys.json").of(paths) == after
