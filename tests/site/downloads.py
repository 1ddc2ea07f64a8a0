"""What a reader who downloads a chapter gets."""

import json
from pathlib import Path

from bookext.drawings import with_pictures


def with_its_pictures(path: Path) -> dict:
    """The committed notebook at `path`, its pictures in its cells."""
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = with_pictures("".join(cell["source"]))
            cell["source"] = text.splitlines(keepends=True)
    return notebook
