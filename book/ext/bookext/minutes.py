"""How long pages take to read, from their own length: the role ``minutes``.

``{minutes}`11_ranks_live autopsy` `` in a page becomes "40 minutes", and ``{minutes}`all` `` the
time of all chapters. The English pages are measured for both languages: 180 words and 12 lines of
visible code a minute; exercises' solutions are hidden, and outputs are not counted.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole

from bookext.words import words_of

ROOT = Path(__file__).resolve().parents[3]
WORDS, LINES = 180, 12  # a minute
HIDDEN = {"hide-cell", "hide-input", "remove-cell", "remove-input"}
UNREAD = re.compile(r"\A---\n.*?^---$|<!--.*?-->|!\[[^]]*\]\([^)]*\)|\]\([^)]*\)", re.DOTALL | re.M)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def minutes_of(page: str) -> float:
    """Minutes for a chapter, `11_ranks_live`, or another page, `autopsy`.

    Raises LookupError with a sentence where there is no such page.
    """
    words = lines = 0
    for kind, text in parts(page):
        if kind == "code":
            lines += len(text.strip().splitlines())
            continue
        for code in FENCED.findall(text):
            lines += len(code.splitlines()) - 2
        words += len(UNREAD.sub(" ", FENCED.sub(" ", text)).split())
    return words / WORDS + lines / LINES


def parts(page: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of what a reader sees of a page: its Markdown, its visible code."""
    notebook, text = source(page)
    if not notebook:
        yield "markdown", text
        return
    for cell in json.loads(text)["cells"]:
        if not HIDDEN & set(cell["metadata"].get("tags", ())):
            yield cell["cell_type"], "".join(cell["source"])


def source(page: str) -> tuple[bool, str]:
    """Whether the page is a notebook, and the text of its file."""
    chapter = ROOT / "chapters" / "en" / f"{page}.ipynb"
    path = chapter if chapter.exists() else ROOT / "book" / "en" / f"{page}.md"
    if not path.exists():
        raise LookupError(f"there is no page {page!r} to take the minutes of")
    return path == chapter, path.read_text("utf-8")


def rounded(minutes: float) -> int:
    """To five minutes; from two hours on to half an hour: nobody reads by the minute."""
    step = 5 if minutes < 120 else 30
    return max(step, step * round(minutes / step))


def said(minutes: float, words: dict) -> str:
    """The minutes in words of the page's language."""
    whole = rounded(minutes)
    if minutes < 120:
        return words["minutes"].format(n=whole)
    return words["hours"].format(n=f"{whole / 60:g}")


class Minutes(SphinxRole):
    """The minutes of the pages that the role's text names."""

    def run(self):
        chapters = ROOT / "chapters" / "en"
        pages = self.text.split()
        if pages == ["all"]:
            pages = sorted(path.stem for path in chapters.glob("*.ipynb"))
        for page in pages:
            self.env.note_dependency(str(chapters / f"{page}.ipynb"))
        try:
            total = sum(map(minutes_of, pages))
        except LookupError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]
        words = words_of(self.config.html_context["lang"])
        return [nodes.Text(said(total, words))], []


def setup(app):
    app.add_role("minutes", Minutes())
