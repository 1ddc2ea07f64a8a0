"""The page Symptoms, from ``src/rankbook/symptoms``, and the look-up of a pasted message.

``<!-- symptoms -->`` in a page becomes all entries. The search page and that page also get
``symptoms.js`` with the patterns beside it: Sphinx's own search wants every word of a query, and a
pasted message brings numbers, paths and addresses that no page has.
"""

import json
from collections import Counter
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from bookext.words import words_of
from rankbook.symptoms.entries import Symptom, every, groups

ROOT = Path(__file__).resolve().parents[3]
PAGE = "book/{}/symptoms"


def entries(language: str, _argument: str) -> str:
    """All entries as Markdown: a section for each group, a term of a definition list for each."""
    words, lines = words_of(language)["symptoms"], []
    for group, found in groupby(every(), lambda symptom: symptom.group):
        lines += [f"## {groups()[group][language]}", "", "::::{div} symptoms"]
        for symptom in found:
            lines += [f"[{_said(symptom, language)}]{{#{symptom.id}}}"]
            lines += [f": {symptom.means[language]}", ""]
            lines += [f"  {words['do']}{symptom.do[language]}", ""]
            lines += [f'  <span class="symptom-cells">{_links(symptom, language)}</span>', ""]
        lines += ["::::", ""]
    return "\n".join(lines)


def _said(symptom: Symptom, language: str) -> str:
    message = symptom.message(language)
    return f"``` {message} ```" if symptom.kind == "message" else message


def _links(symptom: Symptom, language: str) -> str:
    """Links to the cells; their words are the chapter's title and the heading above the cell."""
    links, named = [], Counter()
    for address in symptom.cells:
        chapter, _, name = address.partition("#")
        title, place, heading = _places(chapter, language)[name]
        words = f"{title} · {heading}" if heading else title
        named[words] += 1
        again = f" ({named[words]})" if named[words] > 1 else ""  # another cell below it
        to = f"../../chapters/{language}/{chapter}.html#at-cell-{place}"
        links.append(f'<a href="{to}">{escape(words + again)}</a>')
    return " ".join(links)


@cache
def _places(chapter: str, language: str) -> dict[str, tuple[str, int, str]]:
    """The chapter's title, the number of the cell and the heading above it, by the cell's id."""
    path = ROOT / "chapters" / language / f"{chapter}.ipynb"
    found, title, heading = {}, "", ""
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for line in text.split("\n"):
                if line.startswith("# "):
                    title = line[2:].replace("`", "")
                elif line.startswith(("## ", "### ")):
                    heading = line.lstrip("#").strip().replace("`", "")
        found[cell["id"]] = title, number, heading
    return found


def add_look_up(app, pagename, templatename, context, doctree):
    """Give the search page and the page itself the patterns, and the script that uses them."""
    language = app.config.html_context["lang"]
    if pagename not in ("search", PAGE.format(language)):
        return
    data = {
        "page": f"{PAGE.format(language)}.html",
        "words": words_of(language)["symptoms"],
        "entries": [
            {"message": s.message(language)}
            | {name: getattr(s, name) for name in ("id", "pattern", "fixed", "late")}
            for s in every()
            if s.pattern
        ],
    }
    safe = json.dumps(data, ensure_ascii=False).replace("<", r"\u003c")
    app.add_js_file(None, body=f"const SYMPTOMS = {safe};")
    app.add_js_file("symptoms.js", loading_method="defer")


def setup(app):
    app.connect("html-page-context", add_look_up)
