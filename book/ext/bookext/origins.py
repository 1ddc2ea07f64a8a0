"""The page "You come from…", from ``book/from.yml``: the tutorials that the book retells.

``<!-- origins -->`` in a page becomes a section for each of them: what became of it, its pages, and
a table of the names in its listings with today's, each linked to the cell that has it.
"""

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[3]


class Cell(NamedTuple):
    """A cell of a chapter.

    place: the anchor that `bookext.anchors` gives to it or its section. words: of a link to it.
    """

    source: str
    place: str
    words: str


@cache
def data() -> dict:
    return yaml.safe_load((ROOT / "book" / "from.yml").read_text("utf-8"))


def sections(language: str, _argument: str) -> str:
    """All texts as Markdown."""
    return "\n".join(line for text in data()["texts"] for line in _section(text, language))


def _section(text: dict, language: str) -> list[str]:
    words, title = data()["words"][language], text["title"]
    english = f"[{title['en']}]({text['address']})" if "address" in text else title["en"]
    chinese = f"《{title['zh']}》"
    first, second = (english, chinese) if language == "en" else (chinese, english)
    program = f" · [{words['program']}]({text['program']})" if "program" in text else ""
    own, deeper = own_pages(text), [page for page in text["pages"] if page not in own_pages(text)]
    lines = [f"## {text['topic'][language]}", ""]
    lines += [f"**{first}**<br>{words['other']}{second}<br>{text['within'][language]}{program}", ""]
    takes = words["takes"].format(minutes=f"{{minutes}}`{' '.join(own)}`")
    lines += [text["fate"][language], ""]
    lines += [words["pages"] + _links(own, language) + takes]
    lines += ["", words["deeper"] + _links(deeper, language)] if deeper else []
    lines += [""]
    lines += [f"| {' | '.join(words['head'])} |", "|---|---|---|"]
    lines += [f"| {' | '.join(row(found, language))} |" for found in text["rows"]]
    return [*lines, ""]


def own_pages(text: dict) -> list[str]:
    """Those of a text's pages that retell it; the others go beyond it."""
    return [page for page in text["pages"] if page.startswith("T")]


def _links(pages: list[str], language: str) -> str:
    """Links to pages, under their titles."""
    comma = data()["words"][language]["comma"]
    return comma.join(f"[](../../chapters/{language}/{page}.ipynb)" for page in pages)


def row(found: dict, language: str) -> tuple[str, str, str]:
    """A row's columns as Markdown: the names in the text, today's, and a link or nothing."""
    comma = data()["words"][language]["comma"]
    then = comma.join(f"`{name}`" for name in found["then"].split(", "))
    return then, found[language], _link(found["at"], language) if "at" in found else ""


def name_today(found: dict, language: str) -> str:
    """The first name in a row's text, which stands where the row leads."""
    return found[language].split("`")[1]


def _link(address: str, language: str) -> str:
    chapter, _, name = address.partition("#")
    to = f"../../chapters/{language}/{chapter}"
    if not name:
        return f"[]({to}.ipynb)"
    cell = cells(chapter, language)[name]
    return f'<a href="{to}.html#{cell.place}">{escape(cell.words)}</a>'


@cache
def cells(chapter: str, language: str) -> dict[str, Cell]:
    """The cells of a chapter by their ids. Of a text, the place is the last section that it begins,
    or else the one that it stands in."""
    path = ROOT / "chapters" / language / f"{chapter}.ipynb"
    found, title, heading, section = {}, "", "", (0, 0)
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        source, place = "".join(cell["source"]), f"at-cell-{number}"
        if cell["cell_type"] == "markdown":
            for line in source.split("\n"):
                marks, _, words = line.replace("`", "").partition(" ")
                if marks == "#":
                    title = words
                elif marks == "##":
                    heading, section = words, (section[0] + 1, 0)
                elif marks == "###":
                    heading, section = words, (section[0], section[1] + 1)
            place = "-".join(["at", *(str(n) for n in section if n)])
        found[cell["id"]] = Cell(source, place, f"{title} · {heading}" if heading else title)
    return found
