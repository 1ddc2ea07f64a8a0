"""Drawn pictures: within the page, in its colours; within a notebook that is downloaded, too.

``![what it says](../../book/pictures/en/NAME.svg)`` becomes ``<figure class="drawing">`` with the
drawing itself in it. A notebook leaves the book alone, without the folder of pictures: its copy for
downloads holds the pictures that it shows.
"""

import base64
import json
import re
from html import escape
from pathlib import Path

from docutils import nodes

from bookext.inline import inline

BOOK = Path(__file__).resolve().parents[2]
PICTURE = re.compile(r"(?:^|/)pictures/((?:en|zh)/[\w-]+\.svg)$")
SHOWN = re.compile(r"!\[([^\]]*)\]\([./]*/book/pictures/((?:en|zh)/[\w-]+\.svg)\)")
SIZE = re.compile(r'(?<= width="|height=")[\d.]+')
SCALE = 1.1  # CSS pixels of a unit of the drawing, where there is room: words as large as the text
BEFORE_IMAGES = 400  # Sphinx collects the images of a page at 500


def picture(name: str) -> Path:
    """The committed file of ``en/NAME.svg``."""
    return BOOK / "pictures" / name


def drawing(name: str, label: str) -> str:
    """The drawing ``en/NAME.svg`` as an element of a page; label: its alternative text."""
    svg = picture(name).read_text("utf-8")
    head, rest = inline(svg, Path(name).stem, label, "drawing").split(">", 1)
    head = SIZE.sub(lambda found: f"{SCALE * float(found[0]):.0f}", head)
    return f"{head}>{rest}"


def place(app, doctree):
    """Put the drawing itself where a page shows one."""
    for image in list(doctree.findall(nodes.image)):
        found = PICTURE.search(image["uri"])
        if not found or "moving-" in found[1]:
            continue
        app.env.note_dependency(str(picture(found[1])))
        html = drawing(found[1], image.get("alt", ""))
        alone = isinstance(image.parent, nodes.paragraph) and len(image.parent) == 1
        if alone:  # not in a line, nor in a link
            html = f'<figure class="drawing">{html}</figure>'
        (image.parent if alone else image).replace_self(nodes.raw("", html, format="html"))


def with_pictures(source: str) -> str:
    """Markdown whose pictures are in it.

    As HTML, which every front end shows: JupyterLab has no SVG among a cell's attachments, and
    VS Code no SVG behind Markdown's own mark for images.
    """

    def data(shown: re.Match) -> str:
        file = base64.b64encode(picture(shown[2]).read_bytes()).decode()
        return f'<img alt="{escape(shown[1])}" src="data:image/svg+xml;base64,{file}">'

    return SHOWN.sub(data, source)


def embed(app, error):
    """Put the pictures into the notebooks that readers download."""
    for path in (Path(app.outdir) / "_sources").rglob("*.ipynb") if error is None else ():
        text = path.read_text("utf-8")
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                lines = with_pictures("".join(cell["source"])).splitlines(keepends=True)
                cell["source"] = lines if isinstance(cell["source"], list) else "".join(lines)
        new = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        if new != text:
            path.write_text(new, "utf-8")


def setup(app):
    app.connect("doctree-read", place, priority=BEFORE_IMAGES)
    app.connect("build-finished", embed)
