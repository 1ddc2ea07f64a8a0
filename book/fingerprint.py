"""What chapters and pages are made from, as one hash each: nothing is made twice, nothing is stale.

A chapter's outputs depend on its own cells and on what these reach: modules of the library, as
their code goes (docstrings and comments count only where the chapter shows them), other files
beside them, recorded results and launch files that are named. A page may show any of the library.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import distributions
from pathlib import Path

from cells import use_of_cells
from closure import ANY, RECORDED, Use, closure
from library import Library

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / os.environ.get("RANKBOOK_BUILD", "_build")  # another folder: all is made anew there
COMPILED = {".pyc", ".so"}
OF_BUILDS = {"make_book.json", "long_tests.json"}  # results that no page shows
OUTLINE = re.compile(r"^(?:#+ .*|\(.*\)=.*|.*\{#.*)$", re.MULTILINE)  # headings, anchors
OF_CHAPTERS = {"chapters.json", *OF_BUILDS}  # and none that a chapter shows


class Keys:
    """The execution keys of the chapters below `root`, as the sources were when it was made."""

    def __init__(self, root: Path):
        self.root = root
        self.library = library(root / "src", state(root / "src"))

    def of(self, path: Path) -> str:
        """Hash of all that the outputs of the notebook at `path` depend on; 16 hex digits.

        The language is not among it: notebooks with the same code have the same key.
        """
        own, kernel = code_of(path)
        use = use_of_cells([source for source, _ in own], self.library)
        reached = closure(self.library, use.targets)
        facts = [json.dumps([own, kernel], sort_keys=True), *self.modules(use, reached), *machine()]
        return digest(self.root, self.files(use, reached), facts)

    def modules(self, use: Use, reached: dict[str, Use]) -> Iterator[str]:
        """The name and the code of each module that is reached; with its text where it shows."""
        homes = {home for target in use.shown or () for home in self.library.way(target)[0][-1:]}
        for module in sorted(reached):
            source = self.library.source(module)
            with_text = use.shown is None or module in homes | self.library.with_text
            yield f"{module}: {source.text if with_text else source.code}"

    def files(self, use: Use, reached: dict[str, Use]) -> set[Path]:
        """Files that are no modules: beside those that are reached, results, launch files."""
        folders = {self.library.paths[module].parent for module in reached}
        found = {p for folder in folders for p in folder.iterdir() if p.suffix != ".py"}
        said = use.strings.union(*(other.strings for other in reached.values()))
        called = {text.removeprefix(RECORDED) for text in said if text.startswith(RECORDED)}
        called |= {text for text in said if text.endswith(".json")}
        every = results(self.root)
        found |= {p for p in every if ANY in called or not names(p).isdisjoint(called)}
        if any(text == "launch" or "launch/" in text for text in use.strings):
            found |= set((self.root / "launch").rglob("*"))
        return found


class RememberedKeys:
    """The same keys. Those that the last build found serve where nothing but text has changed."""

    def __init__(self, root: Path, file: Path):
        self._root, self._file = root, file
        self._frame = digest(root, around_texts(root, "en"), machine())
        found = {}
        with suppress(OSError, ValueError):  # none yet, or a build was killed while it wrote
            found = json.loads(file.read_text("utf-8"))
        self._keys = found["keys"] if found.get("frame") == self._frame else {}

    def of(self, paths: Iterable[Path]) -> dict[Path, str]:
        """The key of each of these notebooks."""
        keys = None
        found = {}
        for path in paths:
            code = digest(self._root, (), [json.dumps(code_of(path), sort_keys=True)])
            if code not in self._keys:
                keys = keys or Keys(self._root)
                self._keys[code] = keys.of(path)
            found[path] = self._keys[code]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"frame": self._frame, "keys": self._keys}), "utf-8")
        return found


def code_of(path: Path) -> tuple[list, dict | None]:
    """The code of a notebook, [source, metadata] of each cell, and its kernel."""
    notebook = json.loads(path.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    own = [["".join(cell["source"]), cell["metadata"]] for cell in cells]
    return own, notebook["metadata"].get("kernelspec")


@lru_cache(maxsize=1)
def library(src: Path, state: tuple) -> Library:
    """The library at `src` in this `state`: read once, as long as no file changes."""
    return Library(src)


def state(src: Path) -> tuple:
    """What changes with any file below `src`."""
    stats = ((str(path), path.stat()) for path in sorted(src.rglob("*.py")))
    return tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def page_key(root: Path, language: str) -> str:
    """Hash of everything the pages of `language` are made from, executions included."""
    return digest(root, [*around_texts(root, language), *texts(root, language)], machine())


def frame_key(root: Path, language: str, executions: Iterable[Path]) -> str:
    """The same but for the text of the pages: their outlines and `executions` in its place.

    While this stays, a page whose text did not change is what it was.
    """
    outlines = map(outline, sorted(texts(root, language)))
    around = around_texts(root, language)
    return digest(root, around, [*machine(), *map(str, executions), *outlines])


def outline(path: Path) -> str:
    """What other pages may say of the page at `path`: its headings and anchors, its cells."""
    source = path.read_text("utf-8")
    cells = json.loads(source)["cells"] if path.suffix == ".ipynb" else [{"source": source}]
    found = [path.name]
    for cell in cells:
        found += [cell.get("id", ""), cell.get("cell_type", "")]
        if cell.get("cell_type") != "code":
            found += OUTLINE.findall("".join(cell["source"]))
    return "\n".join(found)


def texts(root: Path, language: str) -> list[Path]:
    """The sources of the pages of `language`."""
    pages = (root / "book" / language).rglob("*.md")
    return [*pages, *(root / "chapters" / language).glob("*.ipynb")]


def around_texts(root: Path, language: str) -> list[Path]:
    """What the pages of `language` are made from besides their own texts."""
    other = {"en": "zh", "zh": "en"}[language]
    book = [p for p in (root / "book").rglob("*") if p.relative_to(root).parts[1] != other]
    files = [*book, *(root / "src").rglob("*"), *(root / "launch").rglob("*")]
    no_part = {*texts(root, language), *(root / "book" / "results" / name for name in OF_BUILDS)}
    return [p for p in (*files, root / "_config.yml", root / "_toc.yml") if p not in no_part]


def results(root: Path) -> list[Path]:
    """The recorded results that chapters may show: without those on the chapters themselves."""
    return [p for p in (root / "book" / "results").glob("*.json") if p.name not in OF_CHAPTERS]


def names(result: Path) -> set[str]:
    """What a result is called by: its file, or the beginning of its name up to a dash."""
    parts = result.stem.split("-")
    return {result.name, *("-".join(parts[:n]) for n in range(1, len(parts) + 1))}


def machine() -> list[str]:
    """Python, where it is, which data is used, and the versions that are installed."""
    return [sys.version, sys.prefix, os.environ.get("RANKBOOK_DATA", ""), *versions()]


@cache
def versions() -> list[str]:
    """The installed distributions, sorted: ``torch==2.13.0``."""
    return sorted({f"{d.name}=={d.version}" for d in distributions()})


def digest(root: Path, files: Iterable[Path], facts: Iterable[str]) -> str:
    """Hash of the files' names and contents and of the facts; 16 hex digits."""
    sha = hashlib.sha256()
    for path in sorted(p for p in files if p.is_file() and p.suffix not in COMPILED):
        if ".egg-info" not in str(path):
            sha.update(f"{path.relative_to(root)}\0".encode())
            sha.update(hashlib.sha256(path.read_bytes()).digest())
    for fact in facts:
        sha.update(f"{fact}\0".encode())
    return sha.hexdigest()[:16]
