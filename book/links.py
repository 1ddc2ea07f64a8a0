"""Links between chapters and pages: each leads to a file of the same language, at a place it has.

``python book/links.py`` says of every broken one where it stands, in a second or two: it reads the
sources. What Sphinx makes of them is looked at in ``tests/site``.
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import yaml
from library import Library

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "ext"))

from bookext.generated import slug  # noqa: E402 - the path comes first

from rankbook.symptoms import every  # noqa: E402

FOLDERS, LANGUAGES = ("chapters", "book"), ("en", "zh")
CODE = re.compile(r"^(`{3,}|~{3,})(?!\{).*?^\1`*$|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.M | re.S)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)|^:link: (\S+)$|\bhref=\"([^\"]+)\"", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
NAMED = re.compile(r"\{#([\w-]+)\}|^\(([\w-]+)\)=$|\bid=\"([\w-]+)\"", re.MULTILINE)
PLACE = re.compile(r"at-(\d+(-\d+)*|cell-\d+)$")  # numbered by the build: bookext/anchors.py


def main() -> int:
    """Print a sentence for every broken link; 0 when there is none."""
    found = problems(ROOT)
    print("\n".join(found) or "Every link leads somewhere.")
    return 1 if found else 0


def problems(root: Path) -> list[str]:
    """One sentence for every link under `root` that leads nowhere, or to the other language."""
    site = Site(root)
    return [
        f"{where}: {link} {wrong}"
        for file in files(root)
        for where, text in texts(file, root)
        for link in links(text)
        if (wrong := site.wrong_with(file, link))
    ]


def files(root: Path) -> list[Path]:
    """Every chapter and page in both languages, and what is read beside the book."""
    found = [*root.glob("chapters/*/*.ipynb"), *root.glob("book/en/**/*.md")]
    found += [*root.glob("book/zh/**/*.md"), *root.glob("*.md"), *root.glob("*/README.md")]
    return sorted(found)


def texts(file: Path, root: Path) -> Iterator[tuple[str, str]]:
    """(where, Markdown) of a file: a page is one text, a notebook has one a cell."""
    name = str(file.relative_to(root))
    if file.suffix != ".ipynb":
        yield name, file.read_text("utf-8")
        return
    for cell in json.loads(file.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield f"{name}, cell {cell['id']!r}", "".join(cell["source"])


def links(markdown: str) -> list[str]:
    """The links to files and places of ours, in order; none from code."""
    found = ["".join(match) for match in LINK.findall(CODE.sub("", markdown))]
    return [link for link in found if not re.match(r"[a-z]+:|//", link)]


class Site:
    """What links may lead to."""

    def __init__(self, root: Path):
        self.root = root
        self.library = Library(root / "src")
        self.anchors = cache(self._anchors)

    def wrong_with(self, file: Path, link: str) -> str:
        """What is wrong with a link in `file`, as the end of a sentence; empty if nothing is."""
        path, _, anchor = unquote(link).partition("#")
        target = file
        if path:
            target = (file.parent / path).resolve()
            if not target.suffix and not target.is_dir():  # as `:link:` names pages
                target = next(
                    (t for s in (".md", ".ipynb") if (t := Path(f"{target}{s}")).exists()), target
                )
            if not target.exists():
                return "leads to no file"
        here, there = self.language(file), self.language(target)
        if here and there and here != there:
            return f"leads to the other language: a page in {here!r} links to its own"
        if anchor and target.suffix in (".md", ".ipynb") and not self.has(target, anchor):
            return f"leads to no place: {target.relative_to(self.root)} has no {anchor!r}"
        return ""

    def language(self, file: Path) -> str:
        """``en`` or ``zh``; empty for what is in neither language's folder."""
        parts = file.relative_to(self.root).parts if file.is_relative_to(self.root) else ()
        return next((part for part in parts[1:-1] if part in LANGUAGES), "")

    def has(self, file: Path, anchor: str) -> bool:
        """Does the page that `file` becomes have the anchor?"""
        if anchor in self.anchors(file) or PLACE.match(anchor):
            return True
        return self.library.has(anchor) and bool(self.library.way(anchor)[0])  # the reference

    def _anchors(self, file: Path) -> set[str]:
        """The anchors of a page: its headings', those it names, and its glossary's."""
        text = "\n\n".join(text for _, text in texts(file, self.root))
        prose = CODE.sub(lambda match: match[0].strip("`") if match[2] else "", text)
        found = {heading_anchor(title) for title in HEADING.findall(prose)}
        found |= {"".join(match) for match in NAMED.findall(prose)}
        if "<!-- glossary -->" in text:
            topics = yaml.safe_load((self.root / "book" / "glossary.yml").read_text("utf-8"))
            found |= {f"term-{slug(term['en'])}" for topic in topics for term in topic["terms"]}
        if "<!-- symptoms -->" in text:
            found |= {symptom.id for symptom in every()}
        return found


def heading_anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it: ``The proof`` is ``the-proof``."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
