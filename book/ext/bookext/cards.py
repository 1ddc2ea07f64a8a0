"""Cards at the top of a chapter.

What a chapter's first cells hold as bold line plus list ("**You will learn**", "**You need**")
becomes a card each. One more is made here: what the chapter was last verified with, read from its
own execution (ranks and placement from the line that ``%ranks start`` printed, seconds and day from
what the build says of it) and from ``book/results/chapters.json`` (other machines). Nothing is
typed.
"""

import json
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from docutils import nodes

from bookext.verified import placement
from bookext.words import words_of

RESULTS = Path(__file__).resolve().parents[2] / "results" / "chapters.json"


def add_cards(app, doctree):
    """Gather a chapter's cards into one block after its opening words."""
    docname = app.env.docname
    if not docname.startswith("chapters/"):
        return
    top = next(child for child in doctree.children if isinstance(child, nodes.section))
    words = words_of(app.config.html_context["lang"])
    rows = recorded(docname.rpartition("/")[2], words)
    execution = app.config.html_context.get("executed", {}).get(docname)
    if execution and "stopped" not in execution:  # which verified nothing
        rows.insert(0, describe(this_run(doctree, execution), words))
    cards = written_cards(top)
    place = top.index(cards[0][0]) if cards else min(2, len(top.children))
    block = nodes.container(classes=["chapter-cards"])
    for title, body in cards:
        top.remove(title)
        top.remove(body)
        title["classes"].append("chapter-card-title")
        block += nodes.container("", title, body, classes=["chapter-card"])
    if rows:
        block += card(words["verified"], rows)
    if block.children:
        top.insert(place, block)


def written_cards(top: nodes.section) -> list[tuple]:
    """(title, list) of every bold line followed by a list, before the first section."""
    opening = []
    for child in top.children:
        if isinstance(child, nodes.section):
            break
        opening.append(child)
    return [
        (title, body)
        for title, body in pairwise(opening)
        if isinstance(title, nodes.paragraph)
        and [type(part) for part in title.children if part.astext()] == [nodes.strong]
        and isinstance(body, nodes.bullet_list)
    ]


def this_run(doctree, execution: dict) -> dict:
    """The facts of the execution that this page shows: its `seconds` and `date` among them."""
    text = "\n".join(block.astext() for block in doctree.findall(nodes.literal_block))
    return {
        **placement(text),
        "seconds": execution["seconds"],
        "torch": version("torch"),
        "date": execution["date"],
    }


def recorded(chapter: str, words: dict) -> list[str]:
    """The lines of other machines; `make test-gpu` writes the file."""
    if not RESULTS.exists():
        return []
    runs = json.loads(RESULTS.read_text("utf-8"))
    return [describe(run, words) for run in runs if run["chapter"] == chapter]


def describe(run: dict, words: dict) -> str:
    """One line: ranks, seconds, device, backend, torch, day."""
    cores = count(run["cores"], words["cores"]) + (f" ({run['box']})" if run.get("box") else "")
    parts = [
        count(run["ranks"], words["ranks"]) if run["ranks"] else words["ranks"]["none"],
        words["seconds"].format(n=round(run["seconds"])),
        run["gpu"] or cores,
        run["backend"],
        f"torch {run['torch']}",
        run["date"],
    ]
    return " · ".join(part for part in parts if part)


def count(number: int, forms: dict) -> str:
    return forms["one"] if number == 1 else forms["many"].format(n=number)


def card(title: str, rows: list[str]) -> nodes.container:
    """A card of our own: title and one list item a row."""
    heading = nodes.paragraph("", "", nodes.strong("", title), classes=["chapter-card-title"])
    items = nodes.bullet_list()
    for row in rows:
        items += nodes.list_item("", nodes.paragraph("", row))
    return nodes.container("", heading, items, classes=["chapter-card", "verified"])


def setup(app):
    app.connect("doctree-read", add_cards)
