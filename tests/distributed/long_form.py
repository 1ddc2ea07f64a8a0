"""Tests with the mark `long`: run once for the code that they are about, and recorded.

Where nothing that such a file reaches has changed since, its record stands and `make test` leaves
the file out: modules of the tests and benchmarks, those of the library as their code goes, chapters
and results that it names, PyTorch. Where something has, it runs. `make test-long` runs all of them
and writes the record.
"""

import ast
import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from cells import use_of_cells
from closure import closure
from fingerprint import Keys, digest, results

from benchmarks.record import RESULTS
from rankbook.core.results import Result

ROOT = Path(__file__).resolve().parents[2]
RECORD = RESULTS / "long_tests.json"
MARK = "pytest.mark.long"
MODULE = re.compile(r"\b(?:tests|benchmarks)(?:\.\w+)+")
WHAT = "the long tests: each file has passed with the code that it reaches"


def long_files() -> list[Path]:
    """The files of this folder whose tests are long."""
    here = Path(__file__).parent.glob("test_*.py")
    return sorted(path for path in here if MARK in path.read_text("utf-8"))


def keys() -> dict[str, str]:
    """Of each long file: the hash of the code that it reaches; 16 hex digits."""
    made = Keys(ROOT)
    return {path.name: key(path, made) for path in long_files()}


def key(path: Path, made: Keys) -> str:
    """The hash for one file."""
    own = reached(path)
    texts = [each.read_text("utf-8") for each in own]
    use = use_of_cells(texts, made.library)
    modules = made.modules(use, closure(made.library, use.targets))
    return digest(ROOT, [*own, *named("\n".join(texts))], [*modules, version("torch")])


def reached(path: Path) -> list[Path]:
    """`path`, and what it imports or names of the tests and benchmarks, and theirs."""
    found, waiting = [], [path]
    while waiting:
        found.append(file := waiting.pop())
        text = file.read_text("utf-8")
        names = set(MODULE.findall(text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{each.name}" for each in node.names}
        for name in names:
            other = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if MODULE.fullmatch(name) and other.is_file() and other not in (*found, *waiting):
                waiting.append(other)
    return sorted(found)


def named(text: str) -> list[Path]:
    """The chapters and results that `text` names; a result's name begins a string, up to a dash."""
    chapters = [path for path in ROOT.glob("chapters/*/*.ipynb") if path.stem in text]
    begun = set(re.findall(r"[\"'/](\w+)", text))
    return chapters + [path for path in results(ROOT) if path.stem.split("-")[0] in begun]


def proven() -> dict[str, str]:
    """The long files whose record stands, and when it was made."""
    if not RECORD.exists():
        return {}
    record = json.loads(RECORD.read_text("utf-8"))
    return {name: record["when"] for name, now in keys().items() if record["keys"].get(name) == now}


def record(passed: dict[str, list[float]]) -> None:
    """Write down which files have passed: the seconds of their tests, by file."""
    rows = [
        {"file": name, "tests": len(seconds), "seconds": round(sum(seconds))}
        for name, seconds in sorted(passed.items())
    ]
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    said = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    found = {name: each for name, each in keys().items() if name in passed}
    more = {"commit": said, "keys": found}
    Result(WHAT, rows, "make test-long", {"torch": version("torch")}, more=more).write(RECORD)
