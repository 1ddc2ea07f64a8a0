"""Chinese typography: what a Chinese editor would mark, found by rule.

Full-width punctuation beside Chinese, a space between Chinese and Latin letters or digits, a
paragraph on one line (browsers show a line break between two Chinese characters as a gap), and the
translations that the glossary says to avoid.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

CJK = "\u3400-\u4dbf\u4e00-\u9fff"
WIDE = "，。；：！？、（）“”《》…"
RULES = {
    "half-width punctuation beside Chinese": rf"[{CJK}][,;:!?()\"'.](?!\w)|[,;:!?()\"'][{CJK}]",
    "no space between Chinese and Latin": rf"[{CJK}][A-Za-z0-9]|[A-Za-z0-9%][{CJK}]",
    "a space inside Chinese": rf"[{CJK}] +[{CJK}]",
    "a space beside full-width punctuation": rf"[{WIDE}] +[{CJK}\w]|[{CJK}\w] +[{WIDE}]",
    "a line break inside a Chinese paragraph": rf"[{CJK}{WIDE}]\n[{CJK}{WIDE}]",
    "full-width letters or digits": r"[０-９Ａ-Ｚａ-ｚ]",
}
# What is not Chinese prose, and what stands in its place: a Latin letter where spaces matter.
MARKUP = [
    (r"\A---\n.*?\n---\n", ""),
    (r"^(`{3,}|~{3,}).*?^\1`*$", ""),
    (r"<!--.*?-->|<[^>]+>", ""),
    (r"^:{3,}.*$|^:[\w-]+:.*$", ""),
    (r"\{[\w:-]+\}(?=`)", ""),
    (r"`[^`]+`", "x"),
    (r"\$\$.*?\$\$|\$[^$\n]+\$", "x"),
    (r"!?\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"\{[#.][^}]*\}", ""),
    (r"\*+", ""),
    (r"^[ \t]*(?:[-|>]|\d+\.)[ \t]+|\|", "\n"),
]


def problems(root: Path) -> list[str]:
    """One line for everything that breaks a rule in the Chinese texts under `root`."""
    avoided = avoided_words(root)
    return [
        f"{where}: {what}: ...{excerpt}..."
        for where, text in chinese_texts(root)
        for what, excerpt in marks(text, avoided)
    ]


def marks(text: str, avoided: dict[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """(rule, excerpt) for each place in Markdown `text` that breaks a rule."""
    for excerpt in dead_bold(text):
        yield "bold that is shown as asterisks", excerpt
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
    rules = RULES | {f"say {t!r}": re.escape(word) for word, t in (avoided or {}).items()}
    for what, pattern in rules.items():
        for match in re.finditer(pattern, text):
            excerpt = text[max(0, match.start() - 8) : match.end() + 8]
            yield what, excerpt.replace("\n", "⏎")


def dead_bold(text: str) -> Iterator[str]:
    """Bold spans that CommonMark does not see: between punctuation and a letter, ``**`` is text."""
    text = re.sub(r"^(`{3,}).*?^\1`*$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    for bold in re.finditer(r"\*\*([^*\n]+)\*\*", text):
        before, after = text[: bold.start()][-1:], text[bold.end() :][:1]
        first, last = bold[1][0], bold[1][-1]
        if (before.isalnum() and not first.isalnum()) or (after.isalnum() and not last.isalnum()):
            yield before + bold[0] + after


def chinese_texts(root: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of every Chinese text: chapters' cells, pages, glossary, words, README."""
    for path in sorted((root / "chapters" / "zh").glob("*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                yield f"chapters/zh/{path.name}, cell {cell['id']!r}", "".join(cell["source"])
    for path in [*sorted((root / "book" / "zh").rglob("*.md")), root / "README.zh.md"]:
        if path.exists():
            yield str(path.relative_to(root)), path.read_text("utf-8")
    for topic in yaml.safe_load((root / "book" / "glossary.yml").read_text("utf-8")):
        yield "book/glossary.yml", topic["zh"]
        for term in topic["terms"]:
            yield f"book/glossary.yml, {term['en']!r}", f"{term['zh']}\n\n{term['means']['zh']}"
    words = yaml.safe_load((root / "book" / "words.yml").read_text("utf-8"))
    for name, entry in [*words["zh"].items(), *words["theme_zh"].items()]:
        for word in entry.values() if isinstance(entry, dict) else [entry]:
            for text in word if isinstance(word, list) else [word]:
                yield f"book/words.yml, {name!r}", re.sub(r"\{\w+\}", "1", text)


def avoided_words(root: Path) -> dict[str, str]:
    """Translations that are not the book's, each with the term to use instead."""
    topics = yaml.safe_load((root / "book" / "glossary.yml").read_text("utf-8"))
    terms = [term for topic in topics for term in topic["terms"]]
    return {word: term["zh"] for term in terms for word in term.get("avoid", [])}
