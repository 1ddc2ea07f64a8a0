"""A long test's record stands as long as the code does that it reaches."""

import json

import pytest
from fingerprint import Keys

from tests import long_form

TEST = """from rankbook.way import go
from tests.distributed.way_ranks import far
from benchmarks import pace

PAGE, EXAMPLES, RESULT = "11_way.ipynb", "tests.unit.examples", "curve-cpu.json"
START = "launch/start.sh"
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A library of two modules, of which a test and what it imports reach one."""
    files = {
        "src/rankbook/__init__.py": "",
        "src/rankbook/way.py": "def go():\n    return 1\n",
        "src/rankbook/other.py": "def rest():\n    return 1\n",
        "tests/distributed/test_way.py": TEST,
        "tests/distributed/way_ranks.py": "far = 2\n",
        "tests/distributed/unused_ranks.py": "near = 1\n",
        "tests/unit/examples.py": "",
        "benchmarks/pace.py": "",
        "chapters/zh/11_way.ipynb": "{}",
        "chapters/zh/12_other.ipynb": "{}",
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
        "tests/site/test_small.py": "from tests.site.small_book import book\n",
        "tests/site/test_whole.py": "def test(tour): pass\n",
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
        ("tests/distributed/test_way.py", TEST + "AT = 1\n", False),
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
        ("src/rankbook/way.py", "def go():\n    return 2\n", False, False),
        ("src/rankbook/other.py", "def rest():\n    return 2\n", True, False),
        ("book/en/index.md", "# Front, anew", True, False),
        ("chapters/zh/12_other.ipynb", "[]", True, False),
        ("book/results/other-cpu.json", "[]", True, False),
        ("book/results/long_tests.json", "[]", True, True),
    ],
)
def test_tests_of_pages_hang_on_what_makes_them(root, file, text, of_small_stands, of_whole_stands):
    tests = ("tests/site/test_small.py", "tests/site/test_whole.py")
    before = [key(root, test) for test in tests]
    (root / file).write_text(text)
    after = [key(root, test) for test in tests]
    stands = [one == other for one, other in zip(before, after, strict=True)]
    assert stands == [of_small_stands, of_whole_stands]


def rows(**keys: str) -> str:
    return json.dumps(
        {"rows": [{"file": f, "when": "2026-01-01", "key": k} for f, k in keys.items()]}
    )


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Of three files, one has changed since its record was made."""
    monkeypatch.setattr(long_form, "RECORD", tmp_path / "record.json")
    now = {"a": "as now", "b": "is", "c": "new"}
    monkeypatch.setattr(long_form, "keys", lambda files: now)
    long_form.RECORD.write_text(rows(a="as now", b="as it was"))


def test_a_record_of_other_code_proves_nothing(recorded):
    assert long_form.proven([]) == {"a": "2026-01-01"}


def test_what_stands_of_a_record_stays_in_the_next(recorded):
    long_form.record({"c": [1.0, 2.4]})
    kept, new = json.loads(long_form.RECORD.read_text())["rows"]
    assert kept == {"file": "a", "when": "2026-01-01", "key": "as now"}
    assert (new["file"], new["tests"], new["seconds"], new["key"]) == ("c", 2, 3, "new")


def test_files_with_long_tests_are_known_by_their_mark():
    found = {long_form.name_of(path) for path in long_form.long_files()}
    assert {"tests/distributed/test_mesh_norm.py", "tests/unit/test_gpu_benchmark.py"} <= found
    assert {"tests/site/test_build_ends.py", "tests/site/test_weight.py"} <= found
    assert "tests/unit/test_long_form.py" not in found
