"""What corresponds in the two languages: cells, headings, code, and the hash of what was read.

Each Chinese Markdown cell and page holds the hash of the English one that it corresponds to.
"""

import hashlib
import json
import re
from pathlib import Path

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
PURPOSE = ("idea", "failure", "proof")  # a sentence each, of a page that says what it is for
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
FRONT = re.compile(r"\A---\nsource_sha: \"(\w*)\"\n---\n+")


def problems(root: Path) -> list[str]:
    """One sentence for everything in which the languages differ."""
    found = []
    for folder, compare in (("chapters", compare_chapters), ("book", compare_pages)):
        english, chinese = (names(root, folder, language) for language in ("en", "zh"))
        found += [f"{folder}: {n} is there in one language only" for n in sorted(english ^ chinese)]
        for name in sorted(english & chinese):
            found += compare(root / folder / "en" / name, root / folder / "zh" / name)
    return found


def names(root: Path, folder: str, language: str) -> set[str]:
    """The chapters or pages of a language: ``11_ranks_live.ipynb``, ``api/core.md``."""
    pattern = {"chapters": "*.ipynb", "book": "**/*.md"}[folder]
    here = root / folder / language
    return {path.relative_to(here).as_posix() for path in here.glob(pattern)}


def compare_chapters(english: Path, chinese: Path) -> list[str]:
    """What differs between two notebooks, and what should not be committed in either."""
    here, there = (json.loads(path.read_text("utf-8")) for path in (english, chinese))
    found = untidy(f"chapters/en/{english.name}", here)
    found += untidy(f"chapters/zh/{chinese.name}", there)
    ids, twin_ids = ([cell["id"] for cell in book["cells"]] for book in (here, there))
    if ids != twin_ids:
        first = next((a or b for a, b in _pairs(ids, twin_ids) if a != b), "")
        return [*found, f"{english.name}: the cells differ, first at {first!r}"]
    for cell, twin in zip(here["cells"], there["cells"], strict=True):
        found += [f"{english.name}: cell {cell['id']!r} {what}" for what in differences(cell, twin)]
    return found


def differences(cell: dict, twin: dict) -> list[str]:
    """How the Chinese cell `twin` fails to correspond to the English `cell`."""
    found = []
    if cell["cell_type"] != twin["cell_type"]:
        return ["is code in one language and text in the other"]
    if cell["metadata"].get("tags") != twin["metadata"].get("tags"):
        found.append("has other tags in Chinese")
    if cell["cell_type"] == "code" and (
        text(cell) != text(twin) or cell["metadata"] != twin["metadata"]
    ):
        found.append("has other code or metadata in Chinese")
    if cell["cell_type"] == "markdown":
        recorded = twin["metadata"].get("source_sha")
        if recorded is None:
            found.append("has no recorded hash in Chinese")
        elif recorded != sha(text(cell)):
            found.append("changed in English alone: bring the Chinese up to date, then --record it")
        if levels(text(cell)) != levels(text(twin)):
            found.append("has other headings in Chinese")
        if fences(text(cell)) != fences(text(twin)):
            found.append("has other fenced blocks in Chinese")
    return found


def untidy(name: str, notebook: dict) -> list[str]:
    """What a committed notebook must not hold."""
    found = []
    if notebook["metadata"] != {**METADATA, **purpose(notebook)}:
        found.append(f"{name}: its metadata is not exactly the one all chapters share")
    if (notebook["nbformat"], notebook["nbformat_minor"]) != (4, 5):
        found.append(f"{name}: its format is not 4.5")
    for cell in notebook["cells"]:
        if cell.get("outputs") or cell.get("execution_count"):
            found.append(f"{name}: cell {cell['id']!r} has committed outputs")
        if not re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", cell["id"]) or looks_random(cell["id"]):
            found.append(f"{name}: cell id {cell['id']!r} says nothing; name it")
    ids = [cell["id"] for cell in notebook["cells"]]
    found += [f"{name}: cell id {i!r} is there twice" for i in set(ids) if ids.count(i) > 1]
    return found


def purpose(notebook: dict) -> dict[str, str]:
    """What the notebook's metadata says of its idea, its failure and its proof."""
    return {key: notebook["metadata"][key] for key in PURPOSE if key in notebook["metadata"]}


def looks_random(cell_id: str) -> bool:
    """Jupyter's own ids are eight hex digits, or parts of a UUID."""
    return bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f-]+)?", cell_id)) and any(
        map(str.isdigit, cell_id)
    )


def compare_pages(english: Path, chinese: Path) -> list[str]:
    """What differs in the structure of two Markdown pages."""
    here, there = english.read_text("utf-8"), chinese.read_text("utf-8")
    name = chinese.as_posix().rpartition("/book/zh/")[2]
    front = FRONT.match(there)
    body = there[front.end() :] if front else there
    found = []
    if front is None or front[1] != sha(here):
        found.append("changed in English alone, or was never recorded: compare, then --record")
    if levels(here) != levels(body):
        found.append("has other headings in Chinese")
    if fences(here) != fences(body):
        found.append("has other fenced blocks in Chinese")
    return [f"book/zh/{name}: {what}" for what in found]


def sha(source: str) -> str:
    """The first 12 hex digits of the SHA-256 of a cell's or page's source."""
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def text(cell: dict) -> str:
    return "".join(cell["source"])


def levels(markdown: str) -> list[int]:
    """The levels of the headings, in order; fenced blocks do not count."""
    return [len(marks) for marks in HEADING.findall(FENCE.sub("", markdown))]


def fences(markdown: str) -> list[str]:
    """The fenced blocks: code must be equal, of directives the first line."""
    return [
        block[0].splitlines()[0] if "{" in block[0][:5] else block[0]
        for block in FENCE.finditer(markdown)
    ]


def _pairs(one: list, other: list):
    length = max(len(one), len(other))
    return zip(
        one + [None] * (length - len(one)), other + [None] * (length - len(other)), strict=True
    )
