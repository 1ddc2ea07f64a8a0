"""The text pages of the built book, each with a hash of what it alone is made from.

The long tests of `tests/site` go through every page: those again whose hash is not the recorded
one. What all pages are made from is in the key of the test's file (`long_form`).
"""

import re
from pathlib import Path

from cells import use_of_cells
from closure import closure
from fingerprint import Keys, code_of, digest, results

PICTURE = re.compile(r"\bbook/((?:pictures|screenshots)/[\w./-]+)")


def page_keys(made: Keys) -> dict[str, str]:
    """The hash of each text page, by its path below the site; 16 hex digits."""
    root = made.root
    chapters = sorted(root.glob("chapters/*/*.ipynb"))
    others = [p for code in ("en", "zh") for p in sorted((root / "book" / code).rglob("*.md"))]
    found = {path: of_chapter(path, made) for path in chapters}
    found |= {path: digest(root, [path, *of_text(path, root)], []) for path in others}
    return {address(path.relative_to(root)): key for path, key in found.items()}


def address(source: Path) -> str:
    """Where the page made from `source` stands below the site."""
    return f"{source.parts[1]}/{source.with_suffix('.html').as_posix()}"


def of_chapter(path: Path, made: Keys) -> str:
    """Of a chapter: its own text, what its cells reach, the pictures and labels that it shows."""
    use = use_of_cells([source for source, _ in code_of(path)[0]], made.library)
    reached = closure(made.library, use.targets)
    modules = {f"{name.rpartition('.')[2]}.yml" for name in reached}
    labels = [p for p in (made.root / "book" / "labels").glob("*.yml") if p.name in modules]
    files = [path, *labels, *pictures(path, made.root), *made.files(use, reached)]
    return digest(made.root, files, made.modules(use, reached))


def of_text(path: Path, root: Path) -> list[Path]:
    """Of another page: the folders that a page of the reference names; else all it may show."""
    if path.parent.name == "api":
        home = root / "src"
        text = path.read_text("utf-8")
        named = {n.replace(".", "/") for n in re.findall(r"\brankbook\.\w+|\bplots\b", text)}
        return [p for n in named for p in (*home.glob(f"{n}/**/*"), *home.glob(f"{n}.py"))]
    tocs = [root / "_toc.yml", root / "book" / "zh" / "_toc.yml"]
    every = [*(root / "src").rglob("*"), *(root / "launch").rglob("*"), *results(root)]
    return [*every, *tocs, *pictures(path, root)]


def pictures(path: Path, root: Path) -> list[Path]:
    """The drawn pictures that a page names."""
    return [root / "book" / name for name in PICTURE.findall(path.read_text("utf-8"))]
