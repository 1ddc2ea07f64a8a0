"""The entries of the page Symptoms, as they lie beside this file."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

FOLDER = Path(__file__).parent
VARIES = re.compile(r"\{([^{}]*)\}")
SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")  # in a pattern of Python and of JavaScript


@dataclass(frozen=True)
class Symptom:
    """One thing that a reader sees, and what is behind it.

    id: its name, also its anchor on the page. group: the file that it is in. kind: message, hang
    or number. said: what is printed, by language, with what varies in braces; for the other kinds
    what is seen. late: a consequence, which counts only where nothing else is found. means, do:
    sentences in Markdown, by language. cells: "chapter#cell id" of those that show and cure it.
    source: where the message comes from: a file of a package, or "produced" by a test, or "cell".
    proof: what the first cell says to show a hang or a number.
    """

    id: str
    group: str
    kind: str
    said: dict[str, str]
    late: bool
    means: dict[str, str]
    do: dict[str, str]
    cells: tuple[str, ...]
    source: str
    proof: str

    @property
    def address(self) -> str:
        """Where the book has it: ``symptoms.html#peer-closed``."""
        return f"symptoms.html#{self.id}"

    def message(self, language: str = "en") -> str:
        """What a reader sees, as one example of it."""
        return VARIES.sub(r"\1", self.said[language])

    @cached_property
    def fixed(self) -> list[str]:
        """The parts of the message that never vary, each in one line."""
        pieces = re.split(r"\{[^{}]*\}|\n", self.said["en"])
        return [" ".join(piece.split()) for piece in pieces if piece.strip()]

    @cached_property
    def pattern(self) -> str:
        """Finds the message in a text in one line; "" where there is no message to paste."""
        if self.kind != "message":
            return ""
        parts = VARIES.split(" ".join(self.said["en"].split()))[::2]
        return ".{0,200}?".join(SPECIAL.sub(r"\\\g<0>", part) for part in parts).strip()


@cache
def groups() -> dict[str, dict[str, str]]:
    """The title of every group by language, in the order of the page."""
    return {name: file["title"] for name, file in _files().items()}


@cache
def every() -> tuple[Symptom, ...]:
    """All entries, in the order of the page."""
    return tuple(_entry(name, e) for name, f in _files().items() for e in f["symptom"])


def _entry(group: str, entry: dict) -> Symptom:
    said = entry["message"]
    return Symptom(
        id=entry["id"],
        group=group,
        kind=entry.get("kind", "message"),
        said=said if isinstance(said, dict) else {"en": said, "zh": said},
        late=entry.get("late", False),
        means=entry["means"],
        do=entry["do"],
        cells=tuple(entry["cells"]),
        source=entry["source"],
        proof=entry.get("proof", ""),
    )


@cache
def _files() -> dict[str, dict]:
    found = sorted(FOLDER.glob("*.toml"))
    return {p.stem.partition("_")[2]: tomllib.loads(p.read_text("utf-8")) for p in found}
