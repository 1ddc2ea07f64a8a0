"""Reviews as ids: what is in them, and files of them, whole or not."""

import os
import sys
from pathlib import Path

import numpy
import pytest
import torch

from rankbook.data import embedded, sources
from rankbook.data import reviews as texts
from rankbook.speed import Reviews, load_tokens, padding, save_tokens, size, synthetic, tokenised
from rankbook.speed import tokenising as module

REAL = os.environ.get(sources.FOLDER)
SIZE = size("cpu", samples=40, validation=7, test=9, max_length=64)


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    monkeypatch.delenv(sources.FOLDER, raising=False)
    monkeypatch.setenv("RANKBOOK_CACHE", str(tmp_path / "cache"))
    sources.announce.cache_clear()


@pytest.fixture
def generated(monkeypatch):
    """The reviews and the vocabulary of a machine without files, without its 50,000 rows."""
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("transformers")
    rows = datasets.Dataset.from_dict(
        dict(zip(("text", "label"), embedded.reviews(90), strict=True))
    )
    splits = datasets.DatasetDict(
        train=rows.select(range(60)),
        validation=rows.select(range(60, 75)),
        test=rows.select(range(75, 90)),
    )
    splits.source = "IMDB: ninety generated reviews"
    tokenizer = texts._tokenizer(embedded.wordpieces())
    tokenizer.source = "DistilBERT's vocabulary: a small one"
    monkeypatch.setattr(module, "imdb", lambda: splits)
    monkeypatch.setattr(module, "distilbert_tokenizer", lambda: tokenizer)
    return splits, tokenizer


def test_ids_are_the_tokenizer_s_and_the_first_rows(monkeypatch, generated):
    splits, tokenizer = generated
    monkeypatch.setattr(module, "AT_A_TIME", 16)  # so that texts come in several parts
    found = tokenised(SIZE)
    assert {name: len(reviews) for name, reviews in found.items()} == SIZE.splits
    for name, reviews in found.items():
        for i, row in enumerate(splits[name].select(range(len(reviews)))):
            ids = tokenizer(row["text"])["input_ids"]
            cut = ids if len(ids) <= 64 else [*ids[:63], tokenizer.sep_token_id]
            assert reviews.text(i).tolist() == cut
            assert reviews.labels[i] == row["label"]
    train = found["train"]
    assert train.lengths.max() == 64 and train.lengths.min() < 64
    assert (train.ids.dtype, train.offsets[-1]) == (torch.int32, len(train.ids))
    assert train.vocabulary == len(tokenizer)
    assert train.source == "IMDB: ninety generated reviews\nDistilBERT's vocabulary: a small one"


def test_too_many_rows_or_ids_are_one_sentence(generated):
    with pytest.raises(ValueError, match="IMDB's split validation has 15 reviews, not 16"):
        tokenised(size("cpu", samples=10, validation=16))
    with pytest.raises(ValueError, match=r"a vocabulary of \d+, and the model one of 100"):
        tokenised(size("cpu", samples=10, validation=5, test=5, vocab_size=100))


def test_first_rows():
    reviews = Reviews.of([[1, 2], [3], [4, 5, 6]], [0, 1, 1], 7)
    first = reviews.first(2)
    assert first.ids.tolist() == [1, 2, 3] and first.lengths.tolist() == [2, 1]
    assert first.labels.tolist() == [0, 1] and first.vocabulary == 7
    with pytest.raises(ValueError, match="there are 3 reviews, not 4"):
        reviews.first(4)


def test_made_up_reviews_have_imdb_s_lengths_and_can_be_learnt():
    of_512 = size("cpu", vocab_size=50)
    reviews = synthetic(2000, of_512)
    assert torch.equal(reviews.ids, synthetic(2000, of_512).ids)
    assert not torch.equal(reviews.labels, synthetic(2000, of_512, seed=1).labels)
    assert 255 < reviews.lengths.double().mean() < 285  # of IMDB's 35,000: 272
    assert 0.1 < (reviews.lengths == 512).double().mean() < 0.2
    assert 900 < reviews.labels.sum() < 1100
    told = [int((reviews.text(i) == 6).sum() > (reviews.text(i) == 5).sum()) for i in range(200)]
    assert told == reviews.labels[:200].tolist()
    assert reviews.ids.max() < 50


@pytest.fixture
def splits():
    return {name: synthetic(count, SIZE, count) for name, count in SIZE.splits.items()}


def test_a_file_gives_back_what_was_saved(splits, tmp_path):
    path = tmp_path / "new" / "tokens.npz"
    save_tokens(splits, SIZE, path)
    assert [file.name for file in path.parent.iterdir()] == ["tokens.npz"], "nothing beside it"
    found = load_tokens(path, SIZE)
    for name, reviews in splits.items():
        for tensor in ("ids", "offsets", "labels", "lengths"):
            assert torch.equal(getattr(found[name], tensor), getattr(reviews, tensor))
        assert found[name].ids.dtype == torch.int32
        assert (found[name].source, found[name].vocabulary) == (reviews.source, reviews.vocabulary)
    fewer = load_tokens(path, size("cpu", samples=3, validation=2, test=1, max_length=64))
    assert torch.equal(fewer["train"].ids, splits["train"].first(3).ids)


def test_a_file_for_another_size_is_one_sentence(splits, tmp_path):
    path = tmp_path / "tokens.npz"
    save_tokens(splits, SIZE, path)
    counts = {"samples": 40, "validation": 7, "test": 9}
    for changes, sentence in (
        ({"max_length": 128}, "has texts cut at 64 tokens, not at 128; make it again"),
        ({"max_length": 64, "vocab_size": 99}, "a vocabulary of 30522, and the model one of 99"),
        ({"max_length": 64, "test": 10}, "has 9 reviews in test, and this size needs 10"),
    ):
        with pytest.raises(ValueError, match=sentence) as caught:
            load_tokens(path, size("cpu", **(counts | changes)))
        assert str(path) in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"there is no tokens file .*gone\.npz"):
        load_tokens(tmp_path / "gone.npz", SIZE)


def test_a_damaged_file_is_one_sentence(splits, tmp_path):
    path = tmp_path / "tokens.npz"
    save_tokens(splits, SIZE, path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for content in (whole[:-100], whole[:middle], b"", b"text", flipped):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no tokens file of this book, or a part"):
            load_tokens(path, SIZE)


def test_a_file_with_pickles_is_never_opened(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    numpy.savez(tmp_path / "tokens.npz", about=numpy.array([Evil()], dtype=object))
    with pytest.raises(ValueError, match="is no tokens file of this book"):
        load_tokens(tmp_path / "tokens.npz", SIZE)
    assert not (tmp_path / "ran").exists()


def test_arrays_that_do_not_belong_together(splits, tmp_path):
    one = splits["train"]
    splits["train"] = Reviews(one.ids[:-1], one.offsets, one.labels, one.vocabulary)
    save_tokens(splits, SIZE, tmp_path / "tokens.npz")
    with pytest.raises(ValueError, match="is no tokens file of this book"):
        load_tokens(tmp_path / "tokens.npz", SIZE)


@pytest.fixture(scope="module")
def real_lengths(tmp_path_factory):
    """The lengths of 2,000 real reviews, in DistilBERT's tokens."""
    if not REAL or not (Path(REAL) / "imdb").is_dir():
        pytest.skip("RANKBOOK_DATA has no imdb: this test needs the real files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sources.FOLDER, REAL)
        patch.setenv("RANKBOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        real = size("cpu", samples=2000, validation=1, test=1)
        found = tokenised(real)["train"]
        patch.setitem(sys.modules, "transformers", None)  # the second time needs no tokenizer
        again = tokenised(real)["train"]
        assert torch.equal(again.ids, found.ids) and again.source == found.source
    return found.lengths


def test_real_reviews_padded_to_512_cost_1_94_times_their_arithmetic(real_lengths):
    assert real_lengths.double().mean() == pytest.approx(273, abs=3)
    of_all, of_batch, bucketed, packed = (
        padding(real_lengths, way, 12)
        for way in ("longest of all", "longest of batch", "bucketed", "packed")
    )
    assert of_all.token_ratio == pytest.approx(512 / 273, rel=0.015)
    assert of_all.arithmetic_ratio == pytest.approx(1.94, abs=0.03)
    assert of_all.flop / of_batch.flop == pytest.approx(1.02, abs=0.01)
    assert bucketed.arithmetic_ratio < 1.03
    assert packed.arithmetic_ratio == packed.token_ratio == 1


def test_a_damaged_cache_is_made_again(monkeypatch, generated):
    monkeypatch.setattr(module, "local_files", lambda folder: ({}, folder))
    first = tokenised(SIZE)["train"]
    (kept,) = module.cache_folder().iterdir()
    monkeypatch.setattr(module, "imdb", lambda: pytest.fail("it was kept"))
    assert torch.equal(tokenised(SIZE)["train"].ids, first.ids)
    kept.write_bytes(b"torn")
    monkeypatch.setattr(module, "imdb", lambda: generated[0])
    assert torch.equal(tokenised(SIZE)["train"].ids, first.ids)
    assert torch.equal(load_tokens(kept, SIZE)["train"].ids, first.ids), "and kept again"
