"""The catalogue of plot labels: what it translates, what it refuses, and that somebody needs it."""

import re
from pathlib import Path

import pytest
from bookext import labels
from matplotlib.textpath import text_to_path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = (
    "src/**/*.py",
    "src/rankbook/predict/plan/published.toml",  # names of sources
    "chapters/en/*.ipynb",
    "book/results/*.json",
    "benchmarks/**/*.py",
)


@pytest.fixture
def catalogue(monkeypatch):
    words = {
        "{} ranks": "{} 个 rank",
        "step {}: {}": "第 {} 步：{}",
        "{} before {}": "{1} 之后才是 {0}",
        "lost": "丢失",
    }
    monkeypatch.setattr(labels, "entries", lambda: words)
    labels._templates.cache_clear()
    yield
    labels._templates.cache_clear()


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("lost", "丢失"),
        ("  lost ", "  丢失 "),
        ("16 ranks", "16 个 rank"),
        ("step 3: lost", "第 3 步：丢失"),
        ("step 3: 4 ranks", "第 3 步：4 个 rank"),
        ("1 before lost", "丢失 之后才是 1"),
        ("rank 0", "rank 0"),
        ("4 MiB", "4 MiB"),
        ("all_reduce", "all_reduce"),
        ("dist.barrier()", "dist.barrier()"),
        ("−0.5 × 10", "−0.5 × 10"),
        ("A", "A"),
        ("", ""),
    ],
)
def test_a_label_in_chinese(catalogue, english, chinese):
    assert labels.translate(english) == chinese


@pytest.mark.parametrize("english", ["found", "step 3: found", "the rank"])
def test_a_label_without_a_translation_is_told(catalogue, english):
    with pytest.raises(labels.Untranslated, match=english):
        labels.translate(english)


def test_every_entry_is_a_label_that_some_source_writes():
    """Its own words, between the places for numbers, are written in some file."""
    files = [path.read_text("utf-8") for pattern in SOURCES for path in ROOT.glob(pattern)]
    texts = [text.replace('\\"', '"') for text in files]
    unused = [
        english
        for english, parts in labels.fragments()
        if not all(any(_written(part, text) for text in texts) for part in parts)
    ]
    assert not unused


def _written(part: str, text: str) -> bool:
    """Kinds of faults are names with underscores, which a figure shows as spaces."""
    return part in text or part.replace(" ", "_") in text


def test_every_entry_has_the_same_places_in_both_languages():
    for english, chinese in labels.entries().items():
        places = len(re.findall(r"\{\d?\}", chinese))
        assert english.count("{}") == places, f"{english}: {chinese}"


def test_no_chinese_label_is_much_wider_than_the_english_one():
    """It takes the place that the English one was given."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=10)
    wide = {}
    for english, chinese in labels.entries().items():
        here = text_to_path.get_text_width_height_descent(english, font, ismath=False)[0]
        there = sum(10 if ord(c) > 0x2000 else 5.8 for c in chinese)
        if there > 1.1 * here + 20:
            wide[english] = f"{chinese}: {there:.0f}, not {here:.0f}"
    assert not wide
