"""Tests with the mark `long`: run once for the code that they are about, and recorded.

Where nothing that such a file reaches has changed since, its record stands and `make test` leaves
its long tests out: modules of the tests and benchmarks, those of the library as their code goes,
chapters, results and launch files that it names, PyTorch. Where something has, they run.
`make test-long` runs those, and records which have passed.
"""

import ast
import json
import re
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path

from cells import use_of_cells
from closure import closure
from fingerprint import OF_CHAPTERS, Keys, digest, results

from benchmarks.record import RESULTS
from rankbook.core.results import Result

ROOT = Path(__file__).resolve().parents[1]
SHOWN = {"en", "zh", "results", "pictures", "screenshots"}  # folders that only the whole book shows
RECORD = RESULTS / "long_tests.json"
# a mark of the file, of a test, of one set of parameters; or the fixture with a long form
MARK = re.compile(
    r"^(pytestmark = |LONG = |@).*pytest\.mark\.long\b|(?<![.\w])tour\(", re.MULTILINE
)
MODULE = re.compile(r"\b(?:tests|benchmarks)(?:\.\w+)+")
WHAT = "the long tests: those of each file have passed with the code that it reaches"


def long_files() -> list[Path]:
    """The files that have long tests."""
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path for path in every if MARK.search(path.read_text("utf-8"))]


def name_of(path: Path) -> str:
    """What the record calls a file: its path from the root."""
    return path.relative_to(ROOT).as_posix()


def keys(files: list[Path]) -> dict[str, str]:
    """Of each file: the hash of the code that it reaches; 16 hex digits."""
    made = Keys(ROOT)
    return {name_of(path): key(path, made) for path in files}


def key(path: Path, made: Keys) -> str:
    """The hash for one file."""
    own = reached(path)
    texts = [each.read_text("utf-8") for each in own]
    built = pages(texts[own.index(path)]) if path.is_relative_to(ROOT / "tests" / "site") else []
    book = [each for each in built if each.is_relative_to(ROOT / "book")]
    scripts = [each.read_text("utf-8") for each in book if each.suffix == ".py"]
    use = use_of_cells([*texts, *scripts], made.library)
    of_library = closure(made.library, use.targets)
    own += [*built, *beside(path), *named("\n".join(texts))]
    files = [*own, *made.files(use, of_library)]
    return digest(ROOT, files, [*made.modules(use, of_library), version("torch")])


def beside(path: Path) -> list[Path]:
    """The fixtures of the folders that `path` is in; what is no test in the folders beside it."""
    own = [
        folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT / "tests")
    ]
    below = path.parent.glob("*/**/*")
    return own + [
        f for f in below if not f.name.startswith("test_") and "__pycache__" not in f.parts
    ]


def pages(text: str) -> list[Path]:
    """What makes the pages that a test of the site looks at: of a small book, or the whole one."""
    makes = [ROOT / "chapters" / "conftest.py", ROOT / "_config.yml", ROOT / "_toc.yml"]
    book = (ROOT / "book").rglob("*")
    if "small_book" in text:
        return makes + [p for p in book if p.relative_to(ROOT).parts[1] not in SHOWN]
    own = [ROOT / "book" / "results" / name for name in OF_CHAPTERS]
    every = [*book, *(ROOT / "src").rglob("*"), *(ROOT / "launch").rglob("*")]
    chapters = ROOT.glob("chapters/*/*.ipynb")
    return [*makes, *chapters, *(p for p in every if p not in own)]


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


def last_record() -> dict:
    """What was recorded last."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"rows": []}


def proven(files: list[Path]) -> dict[str, str]:
    """Those of `files` whose record stands, and when it was made."""
    found, rows = keys(files), last_record()["rows"]
    return {row["file"]: row["when"] for row in rows if row["key"] == found.get(row["file"])}


def record(passed: dict[str, list[float]]) -> None:
    """Write down which files have passed: the seconds of their long tests, by file.

    What stands of earlier records stays.
    """
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    said = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    found, today = keys(long_files()), date.today().isoformat()
    rows = {
        row["file"]: row for row in last_record()["rows"] if row["key"] == found.get(row["file"])
    }
    for name, seconds in passed.items():
        row = {"file": name, "tests": len(seconds), "seconds": round(sum(seconds))}
        rows[name] = row | {"when": today, "commit": said, "key": found[name]}
    in_order = [rows[name] for name in sorted(rows)]
    Result(WHAT, in_order, "make test-long", {"torch": version("torch")}).write(RECORD)
