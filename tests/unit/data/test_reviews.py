"""imdb() and distilbert_tokenizer(): the real files, and what takes their place offline."""

import math
import statistics
import sys
from collections import Counter

import pytest

from rankbook.data import distilbert_tokenizer, embedded, imdb

# Of seed 0. random.random is fixed for a seed by Python's documentation, so these are too.
FIRST_LABELS = [1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0]
FIRST_WORDS = "The script is simply annoying. My brother rented it on a rainy Sunday. The plot felt"

SIZES = {"train": 35_000, "validation": 5_000, "test": 10_000}


def test_real_reviews_are_cut_in_the_files_own_order(real_data):
    import csv
    import lzma

    path = real_data("imdb") / "movie_data.csv.xz"
    splits = imdb()
    assert {name: len(rows) for name, rows in splits.items()} == SIZES
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))  # another parser than the one under test
    texts = [text for split in splits.values() for text in split["text"]]
    labels = [label for split in splits.values() for label in split["label"]]
    assert texts == [row["review"] for row in rows]
    assert labels == [int(row["sentiment"]) for row in rows]
    assert Counter(labels) == {0: 25_000, 1: 25_000}
    assert len(set(texts)) == 49_582
    assert splits.source == "IMDB: the files of $RANKBOOK_DATA/imdb"
    assert splits["test"].features["label"].names == ["neg", "pos"]

    lengths = sorted(len(text.split()) for text in texts)
    counted = [lengths[min(round(share * 50_000), 49_999)] for share in embedded.SHORTER]
    assert tuple(counted) == embedded.WORDS, "what the offline reviews are modelled on"


def test_real_vocabulary_gives_distilberts_ids(real_data):
    real_data("distilbert-vocab")
    tokenizer = distilbert_tokenizer()
    assert len(tokenizer) == 30_522
    assert tokenizer.model_max_length == 512
    encoded = tokenizer("Hello unbelievable world!")
    # The ids of the published distilbert-base-uncased for this sentence.
    assert encoded["input_ids"] == [101, 7592, 23653, 2088, 999, 102]
    assert tokenizer.source.endswith("$RANKBOOK_DATA/distilbert-vocab")


@pytest.fixture(scope="module")
def generated():
    return embedded.reviews()


def test_generated_reviews_are_the_same_everywhere(generated):
    texts, labels = generated
    assert Counter(labels) == {0: 25_000, 1: 25_000}
    assert embedded.reviews(50) == embedded.reviews(50)
    assert embedded.reviews(50, seed=1) != embedded.reviews(50)
    assert labels[:20] == FIRST_LABELS
    assert texts[0].startswith(FIRST_WORDS)


def test_generated_reviews_have_imdbs_lengths(generated):
    lengths = sorted(len(text.split()) for text in generated[0])
    for share, words in zip(embedded.SHORTER[1:-1], embedded.WORDS[1:-1], strict=True):
        assert lengths[round(share * len(lengths))] == pytest.approx(words, rel=0.04), share
    assert lengths[0] >= 4 and lengths[-1] <= 2470
    assert statistics.mean(lengths) == pytest.approx(231.2, rel=0.02)


def test_generated_labels_can_be_learnt_but_not_perfectly(generated):
    texts, labels = generated
    counts = Counter(), Counter()
    for text, label in zip(texts[:4000], labels[:4000], strict=True):
        counts[label].update(text.split())

    def praise(text: str) -> float:  # naive Bayes
        return sum(math.log((counts[1][w] + 1) / (counts[0][w] + 1)) for w in text.split())

    rows = list(zip(texts[-2000:], labels[-2000:], strict=True))
    right = sum((praise(text) > 0) == (label == 1) for text, label in rows) / len(rows)
    assert 0.85 < right < 0.98, right


@pytest.mark.slow
def test_embedded_vocabulary_knows_every_ascii_word():
    pieces = embedded.wordpieces()
    assert len(pieces) == len(set(pieces))
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    from rankbook.data.reviews import _tokenizer

    tokenizer = _tokenizer(pieces)
    assert len(tokenizer) == len(pieces)
    text = "The plot zyxw'd @ 42 times; brilliant!"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.tokenize("The plot zyxw") == ["the", "plot", "z", "##y", "##x", "##w"]
    assert len(tokenizer("word " * 600, truncation=True)["input_ids"]) == 512


@pytest.mark.parametrize(
    ("call", "package"), [(imdb, "datasets"), (distilbert_tokenizer, "transformers")]
)
def test_missing_package_is_one_sentence(monkeypatch, call, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        call()
