"""The words of plots in Chinese: the catalogue ``book/labels/*.yml``, one file a module of plots.

An entry is a whole label in English and in Chinese. ``{}`` stands for a number or a name, which is
translated in its turn where it has words: ``"{} ranks": "{} 个 rank"``. ``stay.yml`` lists what is
the same in both languages. Numbers, single letters and code (``all_reduce``) need no entry.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "labels"
STAY = "stay.yml"
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]+")
CODE = re.compile(r"[\w.]*(?:\w\(\)|_\w|\w_|\w\.[a-z])[\w.]*(?:\(\))?")


class Untranslated(ValueError):
    """A label that the catalogue does not know."""


@cache
def entries() -> dict[str, str]:
    """All labels of the catalogue, English to Chinese."""
    files = sorted(path for path in FOLDER.glob("*.yml") if path.name != STAY)
    found: dict[str, str] = {}
    for path in files:
        for english, chinese in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            if found.setdefault(english, chinese) != chinese:
                raise ValueError(f"{path.name}: {english!r} is translated in two ways")
    return found


@cache
def staying() -> frozenset[str]:
    """The words that are the same in both languages."""
    return frozenset(yaml.safe_load((FOLDER / STAY).read_text("utf-8")))


@cache
def _templates() -> list[tuple[re.Pattern, str]]:
    """The entries with places in them; those that say most by themselves first."""
    with_places = [english for english in entries() if "{}" in english]
    with_places.sort(key=lambda english: -len(english.replace("{}", "")))
    return [
        ("(.+?)".join(map(re.escape, english.split("{}"))), entries()[english])
        for english in with_places
    ]


def translate(label: str) -> str:
    """`label` in Chinese, spaces around it as they were; raises Untranslated where it has none."""
    words = label.strip()
    if not words:
        return label
    if found := _translated(words):
        return label.replace(words, found)
    raise Untranslated(label)


def _translated(words: str) -> str | None:
    if words in entries():
        return entries()[words]
    for pattern, chinese in _templates():
        if match := re.fullmatch(pattern, words):
            parts = [_translated(part) for part in match.groups()]
            if None not in parts:
                return chinese.format(*parts)
    return words if stays(words) else None


def stays(words: str) -> bool:
    """Has `words` nothing to translate? Numbers, letters, code, and what ``stay.yml`` lists."""
    return set(WORD.findall(CODE.sub(" ", words))) <= staying()


def fragments() -> Iterator[tuple[str, list[str]]]:
    """Each English entry with its own words: what some source must have written."""
    for english in entries():
        yield english, [part.strip(" ,:;.") for part in english.split("{}") if WORD.search(part)]
