"""Test what a change reaches: python tests/changed.py [--list] [COMMIT]

Compares the working tree with COMMIT (the last one, unless one is named). Runs what `make check`
looks at besides the tests, then the tests and the English chapters that the change leads to. A
module of the library has changed where its code has, not its docstrings; a chapter, where its code
cells have. Three things stay with `make test`, and are named: the long tests, the built book's
pages, and the chapters for which `SECONDS` are not enough, those farther from the change.
"""

import argparse
import ast
import json
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "book"), str(ROOT / "book" / "ext")]

from cells import use_of_cells  # noqa: E402
from closure import Use, closure  # noqa: E402
from fingerprint import Keys, code_of  # noqa: E402
from library import Stripped  # noqa: E402

from tests.long_form import long_files, named, reached  # noqa: E402

CHECKS = ["check-lint", "check-types", "check-languages", "check-links"]
SECONDS = 100  # processor time of the chapters, by the last record: about a minute on two cores
# they look at every file of a kind, whoever names it
ALWAYS = ["tests/languages", "tests/unit/test_house.py", "tests/unit/test_benchmarks.py"]
ALWAYS += ["tests/unit/book/test_labels.py"]
BOOK = [ROOT / "book", ROOT / "book" / "ext"]  # where its modules are imported from
SITE = ROOT / "tests" / "site"  # the pages as they are built
COSTS = ROOT / "book" / "results" / "make_book.json"


class Reach(NamedTuple):
    """What to run, and what is left out, each with the reason: paths from the root."""

    tests: list[str]
    chapters: list[str]
    left: dict[str, str]


def git(*words: str) -> str:
    """What git says; its own words where it refuses."""
    command = ["git", "-C", ROOT, *words]  # what it shows may be a picture
    told = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if told.returncode:
        sys.exit(f"make test-change: {told.stderr.strip()}")
    return told.stdout


def changed(commit: str) -> set[Path]:
    """The files that are not what they were in `commit`: new ones and removed ones, too."""
    listed = git("diff", "--name-only", "--no-renames", "-z", commit, "--")
    listed += git("ls-files", "--others", "--exclude-standard", "-z")
    every = {ROOT / name for name in listed.split("\0") if name}
    return {path for path in every if matters(path, commit)}


def matters(path: Path, commit: str) -> bool:
    """Whether what a program or a chapter does may have changed, not only what is said of it."""
    name = path.relative_to(ROOT).as_posix()
    if not path.exists() or not git("ls-tree", "--name-only", commit, name):
        return True
    before, now = git("show", f"{commit}:{name}"), path.read_text("utf-8", errors="replace")
    if path.suffix == ".ipynb":
        return cells_of(before) != cells_of(now)
    if path.suffix == ".py" and path.is_relative_to(ROOT / "src"):
        return code(before) != code(now)
    return before != now


def cells_of(text: str) -> list:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def code(text: str) -> str:
    """A module without docstrings and comments; its text where it is no Python."""
    try:
        return ast.dump(Stripped().visit(ast.parse(text)))
    except SyntaxError:
        return text


@cache
def keys() -> Keys:
    """What leads where, as the sources are now."""
    return Keys(ROOT)


def reach(change: set[Path]) -> Reach:
    """What `change` leads to."""
    made, left = keys(), {"tests/site": "the built book's pages: make test-pages"}
    tests = [path for path, files in of_tests(made).items() if change & files]
    left |= {relative(p): "its long tests" for p in long_files() if p in tests}
    chapters, spent = [], 0.0
    for _, path in sorted(near(change, made)):
        if not chapters or spent + cost(path.stem) <= SECONDS:
            spent += cost(path.stem)
            chapters.append(relative(path))
        else:
            left[relative(path)] = "others are nearer to the change, or take less"
    names = [name for name in map(relative, tests) if not name.startswith("tests/languages/")]
    return Reach([*ALWAYS, *(name for name in names if name not in ALWAYS)], chapters, left)


def near(change: set[Path], made: Keys) -> list[tuple[tuple[int, float], Path]]:
    """The English chapters that are reached, with how far away they are and what they take."""
    every = (ROOT / "chapters" / "en").glob("*.ipynb")
    found = [(of_chapter(path, made, change), path) for path in every]
    return [((far, cost(path.stem)), path) for far, path in found if far is not None]


@cache
def of_tests(made: Keys) -> dict[Path, set[Path]]:
    """What each file of tests reaches."""
    every = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if SITE not in p.parents]
    return {path: of_test(path, made) for path in every}


def of_test(path: Path, made: Keys) -> set[Path]:
    """The files that a test reaches: what it imports or names, and what they do in turn."""
    own = reached(path)
    texts = [each.read_text("utf-8") for each in own]
    use = use_of_cells(texts, made.library)
    beside = {folder / "conftest.py" for folder in path.parents}
    return {*own, *beside, *of_book(own), *named("\n".join(texts)), *of_use(use, made)}


def of_book(files: list[Path]) -> set[Path]:
    """The modules of `BOOK` that the files import, and theirs."""
    found, waiting = set(), list(files)
    while waiting:
        new = set(imported(waiting.pop())) - found
        found |= new
        waiting += new
    return found


@cache
def imported(file: Path) -> list[Path]:
    """The modules of `BOOK` that a file imports, with the packages that they are in."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = [folder.joinpath(*name.split(".")) for name in names for folder in BOOK]
    paths = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in paths]
    return [path for path in paths if path.is_file()]


def of_use(use: Use, made: Keys) -> set[Path]:
    """The modules and the other files that are reached."""
    modules = closure(made.library, use.targets)
    return {made.library.paths[module] for module in modules} | made.files(use, modules)


def of_chapter(path: Path, made: Keys, change: set[Path]) -> int | None:
    """How far a chapter is from the change: 0 its own cells, 1 what they name, 2 all else."""
    other = ROOT / "chapters" / "zh" / path.name
    if path in change or other in change:
        return 0
    use = use_of_cells([source for source, _ in code_of(path)[0]], made.library)
    if not change & of_use(use, made):
        return None
    names = {module for target in use.targets for module in made.library.way(target)[0][-1:]}
    return 1 if change & {made.library.paths[name] for name in names} else 2


@cache
def costs() -> dict[str, float]:
    """The processor time of each chapter in the last record, seconds."""
    rows = json.loads(COSTS.read_text("utf-8"))["rows"]
    return {row["page"]: row["CPU seconds"] for row in rows}


def cost(chapter: str) -> float:
    """Of one; a new one has none recorded, and is run in any case."""
    return costs().get(chapter, 0.0)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(found: Reach) -> list[list[str]]:
    """What is run, one after the other; each to its end."""
    pytest = [sys.executable, "-m", "pytest", "--quiet", "--durations=5", "--durations-min=5"]
    lines = [["make", "--no-print-directory", "--jobs=2", "--keep-going", *CHECKS]]
    lines += [[*pytest, "-m", "not long", *spread(found.tests, 2), *found.tests]]
    if found.chapters:
        options = ["--nbmake", "--timeout=0", *spread(found.chapters, 3)]
        lines += [[*pytest, *options, *found.chapters]]
    return lines


def spread(files: list[str], most: int) -> list[str]:
    """Over so many processes, where there are files enough."""
    count = min(most, len(files))
    return [f"--numprocesses={count}", "--dist=loadfile"] if count > 1 else []


def main() -> int:
    """Say what is run and what isn't, and run it; 1 where something failed."""
    parser = argparse.ArgumentParser(prog="make test-change", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what would be run, only")
    parser.add_argument("commit", nargs="?", default="HEAD", help="compare with it")
    options = parser.parse_args()
    change = changed(options.commit)
    if not change:
        print(f"No code has changed since {options.commit}; make check looks at the texts.")
        return 0
    found = reach(change)
    print(f"{len(change)} files have changed; they reach {len(found.tests)} files of tests and "
          f"{len(found.chapters)} chapters that are run:")  # fmt: skip
    print("\n".join(f"  {name}" for name in (*found.tests, *found.chapters)))
    lines = commands(found)
    if options.list:
        failed = []
    else:
        failed = [line for line in lines if subprocess.run(line, cwd=ROOT).returncode]
    print("Left to make test:")
    print("\n".join(f"  {name} ({why})" for name, why in found.left.items()))
    for line in failed:
        print(f"failed: {shlex.join(line)[:200]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
