"""What a page is made from, as one hash each: nothing is built or executed twice, nothing stale."""

import hashlib
import os
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path


def execution_key(root: Path) -> str:
    """Hash of what the outputs of chapters depend on, besides their own cells.

    The library's source, the launch files, recorded results, installed versions, Python's version
    and which data is used. The notebooks' cells are jupyter-cache's part.
    """
    sources = [p for p in (root / "src").rglob("*") if p.suffix not in {".pyc", ".so"}]
    sources += (root / "launch").rglob("*")
    results = [p for p in (root / "book" / "results").glob("*.json") if p.name != "chapters.json"]
    versions = sorted({f"{d.name}=={d.version}" for d in distributions()})
    data = os.environ.get("RANKBOOK_DATA", "")
    return digest(root, [*sources, *results], [sys.version, sys.prefix, data, *versions])


def page_key(root: Path, language: str, execution: str) -> str:
    """Hash of everything the pages of `language` are made from."""
    other = {"en": "zh", "zh": "en"}[language]
    book = [p for p in (root / "book").rglob("*") if "__pycache__" not in p.parts]
    pages = [p for p in book if p.relative_to(root).parts[1] != other]
    chapters = (root / "chapters" / language).glob("*.ipynb")
    files = [*pages, *chapters, root / "_config.yml", root / "_toc.yml"]
    return digest(root, files, [execution])


def digest(root: Path, files: Iterable[Path], facts: Iterable[str]) -> str:
    """Hash of the files' names and contents and of the facts; 16 hex digits."""
    sha = hashlib.sha256()
    for path in sorted(p for p in files if p.is_file() and ".egg-info" not in str(p)):
        sha.update(f"{path.relative_to(root)}\0".encode())
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    for fact in facts:
        sha.update(f"{fact}\0".encode())
    return sha.hexdigest()[:16]
