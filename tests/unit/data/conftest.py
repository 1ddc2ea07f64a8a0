"""What the tests of rankbook.data share: clean surroundings, real data, and fresh processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.data import sources

SRC = Path(__file__).parents[3] / "src"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """Take the reader's settings away; ids are kept in a folder of the test's own."""
    for name in ("RANK", "RANKBOOK_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANKBOOK_CACHE", str(tmp_path / "cache"))
    sources.announce.cache_clear()


REAL = os.environ.get("RANKBOOK_DATA")  # read before `clean` takes it away


@pytest.fixture
def real_data(monkeypatch):
    """Return a function that points RANKBOOK_DATA at the real files, if `folder` is there."""

    def use(folder: str) -> Path:
        if not REAL or not (Path(REAL) / folder).is_dir():
            pytest.skip(f"RANKBOOK_DATA has no {folder}: this test needs the real files")
        monkeypatch.setenv("RANKBOOK_DATA", str(Path(REAL).absolute()))
        return Path(REAL) / folder

    return use


@pytest.fixture
def small_data(monkeypatch, tmp_path):
    """Return a folder with small files of the right layout, and their checksums expected."""
    from hashlib import sha256

    root = tmp_path / "data"
    contents = {
        "wikitext-2/train.txt": " \n = A title = \n The cat sat , the cat ran . \n",
        "wikitext-2/valid.txt": " The dog sat . \n",
        "wikitext-2/test.txt": " The cat sat . \n",
        "distilbert-vocab/vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n##s\n",
    }
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        monkeypatch.setitem(sources.SHA256, name, sha256(text.encode()).hexdigest())
    monkeypatch.setenv("RANKBOOK_DATA", str(root))
    return root


@pytest.fixture
def fresh(tmp_path):
    """Return a function that runs code in a new Python and gives what it printed as JSON last.

    The hub's libraries read their settings when they are imported, so only a new process sees
    others. It has an empty hub cache of its own and, unless told otherwise, no working hub.
    """

    def run(code: str, **environment: str) -> tuple[list[str], object]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        env |= {
            "PYTHONPATH": str(SRC),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:9",  # the discard port: the connection is refused
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "-c", f"import json\n{code}"],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "loading data must be quiet"
        *lines, last = done.stdout.splitlines()
        return lines, json.loads(last)

    return run
