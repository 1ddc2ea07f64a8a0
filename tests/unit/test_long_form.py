"""A long test's record stands as long as the code does that it reaches."""

import json

import pytest
from fingerprint import Keys

from tests import long_form
from tests.long_pages import page_keys

TEST = """from rankbook.way import go
from tests.distributed.way_ranks import far
from benchmarks import pace

PAGE, EXAMPLES, RESULT = "11_way.ipynb", "tests.unit.examples", "curve-cpu.json"
START = "launch/start.sh"
"""
MARKED = "@pytest.mark.long\ndef test():\n    pass\n"
WHOLE = "def test(tour):\n    tour" + "([])\n"  # in two: this file has no long tests
SITE = ["tests/site/test_small.py", "tests/site/test_whole.py"]


def chapter(source: str) -> str:
    """A notebook with one cell."""
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "source": source}
    return json.dumps({"cells": [cell], "metadata": {}})


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A library of two modules, of which a test and what it imports reach one."""
    files = {
        "src/rankbook/__init__.py": "",
        "src/rankbook/way.py": "def go():\n    return 1\n",
        "src/rankbook/other.py": "def rest():\n    return 1\n",
        "tests/distributed/test_way.py": TEST + MARKED,
        "tests/distributed/way_ranks.py": "far = 2\n",
        "tests/distributed/unused_ranks.py": "near = 1\n",
        "tests/unit/examples.py": "",
        "benchmarks/pace.py": "",
        "chapters/en/11_way.ipynb": chapter("1"),
        "chapters/zh/11_way.ipynb": chapter("1"),
        "chapters/zh/12_other.ipynb": chapter("from rankbook import other"),
        "launch/start.sh": "",
        "tests/conftest.py": "",
        "tests/distributed/troubles/stuck.py": "",
        "tests/distributed/troubles/test_stuck.py": "",
        "tests/unit/conftest.py": "",
        "book/results/curve-cpu.json": "{}",
        "book/results/other-cpu.json": "{}",
        "book/results/long_tests.json": "{}",
        "book/build.py": "from rankbook.way import go\n",
        "book/en/index.md": "# Front",
        "tests/site/test_small.py": MARKED,
        "tests/site/test_whole.py": WHOLE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(long_form, "ROOT", tmp_path)
    return tmp_path


def key(root, test="tests/distributed/test_way.py") -> str:
    return long_form.key(root / test, Keys(root))


@pytest.mark.parametrize(
    ("file", "text", "stands"),
    [
        ("src/rankbook/way.py", "def go():\n    return 2\n", False),
        ("src/rankbook/way.py", 'def go():\n    """Go."""\n    return 1  # once\n', True),
        ("src/rankbook/other.py", "def rest():\n    return 2\n", True),
        ("tests/distributed/test_way.py", TEST + MARKED + "AT = 1\n", False),
        ("tests/distributed/way_ranks.py", "far = 3\n", False),
        ("tests/distributed/unused_ranks.py", "near = 2\n", True),
        ("tests/unit/examples.py", "small = 1\n", False),
        ("benchmarks/pace.py", "slow = 1\n", False),
        ("chapters/zh/11_way.ipynb", "[]", False),
        ("chapters/zh/12_other.ipynb", "[]", True),
        ("launch/start.sh", "exit 1", False),
        ("tests/conftest.py", "browser = 1\n", False),
        ("tests/distributed/troubles/stuck.py", "wait = 1\n", False),
        ("tests/distributed/troubles/test_stuck.py", "wait = 1\n", True),
        ("tests/unit/conftest.py", "browser = 1\n", True),
        ("book/results/curve-cpu.json", "[]", False),
        ("book/results/other-cpu.json", "[]", True),
    ],
)
def test_the_record_stands_while_what_is_reached_stays(root, file, text, stands):
    before = key(root)
    (root / file).write_text(text)
    assert (key(root) == before) == stands


@pytest.mark.parametrize(
    ("file", "text", "of_small_stands", "of_whole_stands"),
    [
        ("book/build.py", "build = 2\n", False, False),
        ("src/rankbook/way.py", "def go():\n    return 2\n", False, True),
        ("src/rankbook/other.py", "def rest():\n    return 2\n", True, True),
        ("book/en/index.md", "# Front, anew", True, True),
        ("chapters/zh/12_other.ipynb", "[]", True, True),
        ("book/results/other-cpu.json", "[]", True, True),
        ("book/results/long_tests.json", "[]", True, True),
    ],
)
def test_tests_of_pages_hang_on_what_makes_them(root, file, text, of_small_stands, of_whole_stands):
    before = [key(root, test) for test in SITE]
    (root / file).write_text(text)
    after = [key(root, test) for test in SITE]
    stands = [one == other for one, other in zip(before, after, strict=True)]
    assert stands == [of_small_stands, of_whole_stands]


@pytest.fixture
def recorded(root, monkeypatch):
    """A record of three files: one is as it was, one has changed, one goes through the pages."""
    monkeypatch.setattr(long_form, "RECORD", root / "record.json")
    monkeypatch.setattr(long_form, "commit", lambda: "abc")
    long_form.record({"tests/distributed/test_way.py": [1], SITE[0]: [1, 2.4], SITE[1]: [1]})
    (root / "book" / "build.py").write_text("from rankbook.way import go\nAT = 1\n")
    long_form.record({SITE[1]: [1]})
    return root


def now(root) -> long_form.Standing:
    return long_form.standing([root / "tests/distributed/test_way.py", *(root / s for s in SITE)])


def test_a_record_of_other_code_proves_nothing(recorded):
    whole, pages = now(recorded)
    assert (whole.keys(), pages) == ({"tests/distributed/test_way.py", SITE[1]}, {})


def test_what_stands_of_a_record_stays_in_the_next(recorded):
    long_form.record({SITE[0]: [1.0, 2.4]})
    kept, new, other = json.loads(long_form.RECORD.read_text())["rows"]
    assert [row["file"] for row in (kept, new, other)] == ["tests/distributed/test_way.py", *SITE]
    assert (new["tests"], new["seconds"], new["commit"]) == (2, 3, "abc")
    assert now(recorded).whole.keys() == {row["file"] for row in (kept, new, other)}


def test_a_page_that_has_changed_is_gone_to_again(recorded):
    (recorded / "chapters" / "zh" / "12_other.ipynb").write_text(chapter("1"))
    whole, pages = now(recorded)
    assert whole.keys() == {"tests/distributed/test_way.py"}
    stay = [f"{code}/chapters/{code}/11_way.html" for code in ("en", "zh")]
    stay = ["en/book/en/index.html", *stay]
    assert {name: sorted(found) for name, found in pages.items()} == {SITE[1]: stay}


@pytest.mark.parametrize(
    ("file", "text", "changed"),
    [
        ("chapters/en/11_way.ipynb", chapter("2"), ["en 11_way"]),
        ("src/rankbook/other.py", "def rest():\n    return 2\n", ["reading", "zh 12_other"]),
        ("src/rankbook/other.py", 'def rest():\n    """R."""\n    return 1\n', ["reading"]),
        ("src/rankbook/way.py", 'def go():\n    """G."""\n    return 1\n', ["reading", "way"]),
        ("book/labels/other.yml", "rest: 余", ["zh 12_other"]),
        ("book/pictures/en/ring.svg", "<svg/>", ["reading"]),
        ("book/results/curve-cpu.json", "[]", ["reading"]),
        ("_toc.yml", "root: reading", ["reading"]),
        ("book/results/long_tests.json", "[]", []),
    ],
)
def test_a_page_has_changed_where_something_that_it_shows_has(root, file, text, changed):
    for name, words in {
        "book/en/reading.md": "# Reading\n\n![A ring](../../book/pictures/en/ring.svg)\n",
        "book/en/api/way.md": "# Ways\n\n<!-- modules: rankbook.way -->\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(words)
    (root / "book/en/index.md").unlink()
    for folder in ("labels", "pictures/en"):
        (root / "book" / folder).mkdir(parents=True)
    pages = {
        "en 11_way": "en/chapters/en/11_way.html",
        "zh 12_other": "zh/chapters/zh/12_other.html",
        "reading": "en/book/en/reading.html",
        "way": "en/book/en/api/way.html",
    }
    before = page_keys(Keys(root))
    (root / file).write_text(text)
    after = page_keys(Keys(root))
    assert set(pages.values()) < before.keys()
    assert sorted(n for n, page in pages.items() if before[page] != after[page]) == changed
    assert before["zh/chapters/zh/11_way.html"] == after["zh/chapters/zh/11_way.html"]


def test_pages_are_recorded_when_all_tests_have_been_through_them(recorded):
    (recorded / "tests/site/test_other.py").write_text(WHOLE)
    before = long_form.RECORD.read_text()
    long_form.record({"tests/site/test_other.py": [1]})
    assert "test_other" not in before


def test_files_with_long_tests_are_known_by_their_mark():
    found = {long_form.name_of(path) for path in long_form.long_files()}
    assert {"tests/distributed/test_mesh_norm.py", "tests/unit/test_gpu_benchmark.py"} <= found
    assert {"tests/site/test_build_ends.py", "tests/site/test_weight.py"} <= found
    assert "tests/unit/test_long_form.py" not in found
