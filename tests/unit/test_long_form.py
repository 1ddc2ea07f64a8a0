"""A long test's record stands as long as the code does that it reaches."""

import json

import pytest
from fingerprint import Keys

from tests.distributed import long_form

TEST = """from rankbook.way import go
from tests.distributed.way_ranks import far
from benchmarks import pace

PAGE, EXAMPLES, RESULT = "11_way.ipynb", "tests.unit.examples", "curve-cpu.json"
pytestmark = pytest.mark.long
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
        "book/results/curve-cpu.json": "{}",
        "book/results/other-cpu.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(long_form, "ROOT", tmp_path)
    return tmp_path


def key(root) -> str:
    return long_form.key(root / "tests/distributed/test_way.py", Keys(root))


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
        ("book/results/curve-cpu.json", "[]", False),
        ("book/results/other-cpu.json", "[]", True),
    ],
)
def test_the_record_stands_while_what_is_reached_stays(root, file, text, stands):
    before = key(root)
    (root / file).write_text(text)
    assert (key(root) == before) == stands


def test_a_record_of_other_code_proves_nothing(tmp_path, monkeypatch):
    record = {"when": "2026-01-01", "keys": {"test_a.py": "as now", "test_b.py": "as it was"}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    monkeypatch.setattr(long_form, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(long_form, "keys", lambda: {"test_a.py": "as now", "test_b.py": "is"})
    assert long_form.proven() == {"test_a.py": "2026-01-01"}
