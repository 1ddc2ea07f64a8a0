"""How long pages take to read, from their own length: the role ``minutes``.

``{minutes}`11_ranks_live autopsy` `` in a page becomes "40 minutes"; ``{minutes}`all` `` is the
time of all chapters, and ``{minutes}`tutorials` `` the shortest and the longest time that one of
the six tutorials takes. The English pages are measured for both languages: 180 words and 12 lines
of visible code a minute; exercises' solutions are hidden, and outputs are not counted.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole

from bookext import origins
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


def said(minutes: list[float], words: dict) -> str:
    """The minutes in words of the page's language, from the fewest to the most."""
    ends = sorted({rounded(min(minutes)), rounded(max(minutes))})
    unit, each = ("minutes", 1) if max(minutes) < 120 else ("hours", 60)
    return words[unit].format(n="–".join(f"{end / each:g}" for end in ends))


def ways(asked: str) -> list[list[str]]:
    """The lists of pages that a role's text names: one, or one for each tutorial."""
    if asked == "tutorials":
        return [origins.own_pages(text) for text in origins.data()["texts"]]
    if asked == "all":
        return [sorted(path.stem for path in (ROOT / "chapters" / "en").glob("*.ipynb"))]
    return [asked.split()]


class Minutes(SphinxRole):
    """The minutes of the pages that the role's text names."""

    def run(self):
        try:
            totals = [sum(self.page(name) for name in pages) for pages in ways(self.text)]
        except LookupError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]
        return [nodes.Text(said(totals, words_of(self.config.html_context["lang"])))], []

    def page(self, name: str) -> float:
        """Its minutes; the page with the role is read again when it changes."""
        self.env.note_dependency(str(ROOT / "chapters" / "en" / f"{name}.ipynb"))
        return minutes_of(name)


def setup(app):
    app.add_role("minutes", Minutes())
