"""The two languages, held together: every chapter and page has a twin that corresponds to it.

``python book/twins.py`` lists what does not correspond, and what Chinese typography forbids. First,
where that is asked for, one chapter is changed:

``--sync CHAPTER`` makes the code cells of the Chinese notebook those of the English one (with
``--from zh`` the other way round): source, tags, order. Texts stay; one that is new comes along, to
be translated.
``--record CHAPTER [CELL]`` says that the Chinese text corresponds: it writes the hash of each
English Markdown cell, or of the one, into its twin. Pages are named like ``api/core``. Record only
what was read again in both languages.

Both take outputs and Jupyter's own additions out of the chapter's two notebooks.
"""

import argparse
import copy
import difflib
import json
import sys
from pathlib import Path

import typography
from correspondence import FRONT, METADATA, names, problems, purpose, sha, text

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {"en": "English", "zh": "Chinese"}


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Change what is asked for, print what does not correspond; 0 when everything does."""
    parser = argparse.ArgumentParser(description="Compare the English and the Chinese book.")
    parser.add_argument("--sync", metavar="CHAPTER", help="copy its code cells, then compare")
    parser.add_argument(
        "--from", dest="source", choices=("en", "zh"), help="what --sync copies (en)"
    )
    words = {"nargs": "+", "metavar": ("CHAPTER", "CELL")}
    parser.add_argument(
        "--record", **words, help="its Chinese text was read again: write the hashes"
    )
    options = parser.parse_args(arguments)
    if options.source and not options.sync:
        parser.error("--from says what --sync copies; name a chapter: --sync CHAPTER")
    if len(options.record or ()) > 2:
        parser.error("--record takes one chapter or page, and one cell of it at most")
    try:
        if options.sync:
            print(sync(root, options.sync, options.source or "en"))
        if options.record:
            print(record(root, *options.record))
    except LookupError as error:
        parser.error(str(error.args[0]))
    found = problems(root) + typography.problems(root)
    print("\n".join(found) or "The languages correspond.")
    return 1 if found else 0


def sync(root: Path, name: str, source: str = "en") -> str:
    """Make the code cells of a chapter those of the language `source`; say what was done.

    A text stays with its own words; one that only the other language has stays after the cell that
    it followed.
    """
    here, there = find(root, name)
    if here.suffix != ".ipynb":
        raise LookupError(f"{name} is a page: --sync copies code cells, which only chapters have")
    if source == "zh":
        here, there = there, here
    if not here.exists():
        raise LookupError(
            f"{name} is not there in {LANGUAGES[source]}: copy from the other language"
        )
    notebook = tidied(here)
    before = tidied(there)["cells"] if there.exists() else []
    texts = {cell["id"]: cell for cell in before if cell["cell_type"] == "markdown"}
    codes = [cell for cell in before if cell["cell_type"] == "code"]
    write(here, notebook)
    cells = []
    for cell in notebook["cells"]:
        new = copy.deepcopy(cell)
        if cell["cell_type"] == "markdown":
            new["metadata"].pop("source_sha", None)  # it is not translated yet
            new = texts.pop(cell["id"], new)
        cells.append(new)
    for cell in texts.values():
        follows = [old["id"] for old in before[: before.index(cell)]]
        places = [n for n, new in enumerate(cells, 1) if new["id"] in follows]
        cells.insert(max(places, default=0), cell)
    write(there, {**notebook, "cells": cells})
    changed = sum(cell not in codes for cell in cells if cell["cell_type"] == "code")
    gone = sum(cell not in cells for cell in codes)
    return (
        f"{name}: {changed} code cells written in {LANGUAGES[there.parent.name]}, {gone} replaced"
    )


def record(root: Path, name: str, cell_id: str | None = None) -> str:
    """Write the hashes of the English texts, or of one, into the Chinese; say what was done."""
    english, chinese = find(root, name)
    if not chinese.exists():
        raise LookupError(f"{name} is not there in Chinese: there is nothing to record")
    if english.suffix == ".md":
        if cell_id:
            raise LookupError(f"{name} is a page: record it as a whole, without {cell_id!r}")
        front = f'---\nsource_sha: "{sha(english.read_text("utf-8"))}"\n---\n\n'
        chinese.write_text(front + FRONT.sub("", chinese.read_text("utf-8")), "utf-8")
        return f"{name}: recorded"
    here, there = tidied(english), tidied(chinese)
    sources = {c["id"]: text(c) for c in here["cells"] if c["cell_type"] == "markdown"}
    wanted = [c for c in there["cells"] if c["id"] in sources and cell_id in (None, c["id"])]
    if cell_id and not wanted:
        known = like(cell_id, sources)
        raise LookupError(f"{name} has no text {cell_id!r} in both languages{known}")
    for cell in wanted:
        cell["metadata"]["source_sha"] = sha(sources[cell["id"]])
    write(english, here)
    write(chinese, there)
    return f"{name}: {len(wanted)} cells recorded"


def find(root: Path, name: str) -> tuple[Path, Path]:
    """The English and the Chinese file of a chapter or page; one of them may be missing.

    name: ``11_ranks_live``, ``api/core``, or the path of either file.
    """
    short = name.removesuffix(".ipynb").removesuffix(".md")
    for prefix in (f"{folder}/{lang}/" for folder in ("chapters", "book") for lang in LANGUAGES):
        short = short.rpartition(prefix)[2]
    known = {}
    for folder in ("chapters", "book"):
        for file in names(root, folder, "en") | names(root, folder, "zh"):
            pair = (root / folder / "en" / file, root / folder / "zh" / file)
            known[file.rpartition(".")[0]] = pair
    if short not in known:
        raise LookupError(f"there is no chapter or page {name!r}{like(short, known)}")
    return known[short]


def like(name: str, known) -> str:
    """What may have been meant, as the end of a sentence."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or sorted(known)[:5]
    return f"; there is {', '.join(close)}" if close else ""


def tidied(path: Path) -> dict:
    """A notebook without outputs and Jupyter's own additions, as it is committed."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"] = {**METADATA, **purpose(notebook)}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
            cell["metadata"].pop("execution", None)
    return notebook


def write(path: Path, notebook: dict) -> None:
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
