"""Figures that move: a still picture in the page, which a script replaces by what moves.

``![what it shows](../../book/pictures/en/moving-NAME.svg)`` in a page becomes ``<figure
class="moving" data-moving="NAME">`` with that picture in it, and the page loads
``moving/kit.js`` and ``moving/NAME.js``. Where scripts are off the picture stays. What the script
needs to know, `bookext.moving_data.NAME` computes; it stands in the page, so that a page opened
from a file has it, too.
"""

import json
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

from bookext.inline import inline

BOOK = Path(__file__).resolve().parents[2]
SCRIPTS = BOOK / "static" / "moving"
STILL = re.compile(r"(?:^|/)pictures/(en|zh)/moving-([a-z_]+)\.svg$")
BEFORE_IMAGES = 300  # Sphinx collects the images of a page at 500, the drawings are placed at 400


def names() -> list[str]:
    """All figures that move."""
    return sorted(path.stem for path in SCRIPTS.glob("*.js") if path.stem != "kit")


def still(name: str, language: str) -> Path:
    """The committed picture of a figure as it stands before anybody touched it."""
    return BOOK / "pictures" / language / f"moving-{name}.svg"


def data(name: str) -> dict | None:
    """What the script of the figure has to be told; None if it knows all it needs."""
    module = f"bookext.moving_data.{name}"
    return import_module(module).data() if find_spec(module) else None


def figure(name: str, language: str, label: str) -> str:
    """The figure as HTML. label: what its picture says, for those who cannot see it."""
    path = still(name, language)
    parts = [f'<figure class="moving" data-moving="{name}">']
    if path.exists():  # only a figure that was just written has none yet
        parts += [inline(path.read_text("utf-8"), f"moving-{name}", label, "moving-still")]
    told = data(name)
    if told is not None:
        safe = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")
        parts += [f'<script type="application/json">{safe}</script>']
    return "\n".join([*parts, "</figure>"])


def place(app, doctree):
    """Put a figure where a page has the picture of one."""
    for image in list(doctree.findall(nodes.image)):
        found = STILL.search(image["uri"])
        if not found:
            continue
        language, name = found.groups()
        app.env.note_dependency(str(still(name, language)))
        raw = nodes.raw("", figure(name, language, image.get("alt", "")), format="html")
        raw["moving"] = name
        alone = isinstance(image.parent, nodes.paragraph) and len(image.parent) == 1
        (image.parent if alone else image).replace_self(raw)


def load(app, pagename, templatename, context, doctree):
    """The scripts, for the pages that have a figure."""
    placed = doctree.findall(nodes.raw) if doctree is not None else ()
    wanted = [node["moving"] for node in placed if "moving" in node]
    for script in ["kit", *dict.fromkeys(wanted)] if wanted else []:
        app.add_js_file(f"moving/{script}.js", loading_method="defer")


def setup(app):
    app.connect("doctree-read", place, priority=BEFORE_IMAGES)
    app.connect("html-page-context", load)
