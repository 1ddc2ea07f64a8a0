"""The glossary is complete in both languages and names each term once."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TOPICS = yaml.safe_load((ROOT / "book" / "glossary.yml").read_text("utf-8"))
TERMS = [term for topic in TOPICS for term in topic["terms"]]


def test_terms_are_many_and_unique():
    assert len(TERMS) >= 60
    for language in ("en", "zh"):
        twice = [t for t, n in Counter(term[language] for term in TERMS).items() if n > 1]
        assert not twice, f"named twice: {twice}"


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term["en"])
def test_one_sentence_in_each_language(term):
    english, chinese = term["means"]["en"], term["means"]["zh"]
    assert english.endswith(".") and english[:1].isupper()
    assert chinese.endswith("。") and "。" not in chinese[:-1]
