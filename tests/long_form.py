"""Tests with the mark `long`: run once for the code that they are about, and recorded.

Where nothing that such a file reaches has changed since, its record stands and `make test` leaves
its long tests out: modules of the tests and benchmarks, those of the library as their code goes,
chapters, results and launch files that it names, PyTorch. Where something has, they run.
`make test-long` runs those, and records which have passed. Tests that go through the pages of the
built book (the fixture `tour`) are recorded with the pages: where one has changed, they go to that
one, and to the few of the fast form (`long_pages`).
"""

import ast
import json
import re
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from cells import use_of_cells
from closure import closure
from fingerprint import Keys, digest, results

from benchmarks.record import RESULTS
from rankbook.core.results import Result
from tests.long_pages import page_keys

ROOT = Path(__file__).resolve().parents[1]
# folders that one page or the other shows
SHOWN = {"en", "zh", "results", "pictures", "screenshots", "labels", "diagrams"}
RECORD = RESULTS / "long_tests.json"
# a mark of the file, of a test, of one set of parameters; or the fixture with a long form
MARK = re.compile(
    r"^(pytestmark = |LONG = |@).*pytest\.mark\.long\b|(?<![.\w])tour\(", re.MULTILINE
)
TOUR = re.compile(r"(?<![.\w])tour\(")
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
    built = pages() if path.is_relative_to(ROOT / "tests" / "site") else []
    own += [*built, *beside(path)]
    if goes_through_pages(path):  # what the library and the results show is in the pages' hashes
        return digest(ROOT, own, [version("torch")])
    book = [each for each in built if each.is_relative_to(ROOT / "book")]
    scripts = [each.read_text("utf-8") for each in book if each.suffix == ".py"]
    use = use_of_cells([*texts, *scripts], made.library)
    of_library = closure(made.library, use.targets)
    files = [*own, *named("\n".join(texts)), *made.files(use, of_library)]
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


def pages() -> list[Path]:
    """What makes the pages that a test of the site looks at, whatever they show."""
    book = (ROOT / "book").rglob("*")
    makes = [ROOT / "chapters" / "conftest.py", ROOT / "_config.yml"]
    return makes + [p for p in book if p.relative_to(ROOT).parts[1] not in SHOWN]


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


class Standing(NamedTuple):
    """What has been shown by tests that passed: they need not run again."""

    whole: dict[str, str]  # files, and when they were recorded
    pages: dict[str, list[str]]  # of other files: the pages that their tests need not go to


def standing(files: list[Path]) -> Standing:
    """Which of `files` have records that stand, for all that they go through or for a part."""
    found, last = keys(files), last_record()
    stands = [row for row in last["rows"] if row["key"] == found.get(row["file"])]
    when = {row["file"]: row["when"] for row in stands}
    through = {name_of(path) for path in files if goes_through_pages(path)} & when.keys()
    now = page_keys(Keys(ROOT)) if through else {}
    same = [page for page, key in now.items() if last.get("pages", {}).get(page) == key]
    part = through if len(same) < len(now) else set()
    whole = {name: on for name, on in when.items() if name not in part}
    return Standing(whole, dict.fromkeys(sorted(part), same))


def goes_through_pages(path: Path) -> bool:
    """Whether the file's long tests go to every page of the built book."""
    return bool(TOUR.search(path.read_text("utf-8")))


def record(passed: dict[str, list[float]]) -> None:
    """Write down which files have passed: the seconds of their long tests, by file.

    What stands of earlier records stays. Files that go through the pages are recorded all together,
    with the pages as they are; where one has not passed, none is.
    """
    every, last = long_files(), last_record()
    found = keys(every)
    tours = [path for path in every if goes_through_pages(path)]
    done = {name_of(path) for path in tours} <= passed.keys() | standing(tours).whole.keys()
    new = [path for path in every if name_of(path) in passed and (done or path not in tours)]
    rows = {row["file"]: row for row in last["rows"] if row["key"] == found.get(row["file"])}
    for name in map(name_of, new):
        row = {"file": name, "tests": len(passed[name]), "seconds": round(sum(passed[name]))}
        when = {"when": date.today().isoformat(), "commit": commit(), "key": found[name]}
        rows[name] = row | when
    seen = page_keys(Keys(ROOT)) if done else last.get("pages", {})
    in_order = [rows[name] for name in sorted(rows)]
    libraries = {"torch": version("torch")}
    Result(WHAT, in_order, "make test-long", libraries, more={"pages": seen}).write(RECORD)


def commit() -> str:
    """The commit that is checked out, in short."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
