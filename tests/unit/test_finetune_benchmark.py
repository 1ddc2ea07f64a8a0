"""The benchmark of fine-tuning: what it masks and cuts, and a whole run of it on a tiny model."""

import json

import pytest
import torch

from benchmarks import finetune, finetune_pretraining, record
from rankbook.speed.reviews import Reviews, synthetic
from rankbook.speed.sizes import size

TINY = size(
    "cpu", vocab_size=40, d_model=16, d_hidden=32, heads=2, max_length=24,
    batch=8, epochs=2, samples=40, validation=16, test=24,
)  # fmt: skip


def test_rare_words_become_one():
    texts = [[101, 7, 7, 8, 102], [101, 7, 9, 102]]
    splits = {"train": Reviews.of(texts, [0, 1], 200), "test": Reviews.of([[101, 9]], [0], 200)}
    fewer = finetune_pretraining.fewer_words(splits, 6)  # the four of their own, 7, and 102
    assert fewer["train"].text(0).tolist() == [2, 4, 4, 1, 5]
    assert fewer["test"].ids.tolist() == [2, 1]
    assert fewer["train"].vocabulary == 6


def test_pieces_begin_with_cls_and_lose_no_order():
    splits = Reviews.of([[2, 5, 6, 7], [2, 8, 9, 5, 6]], [0, 1], 10)
    assert finetune_pretraining.pieces(splits, 4).tolist() == [[2, 5, 6, 7], [2, 8, 9, 5]]


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setattr(finetune, "SIZE", TINY)
    monkeypatch.setattr(finetune, "LABELS", 16)
    monkeypatch.setattr(finetune, "SEEDS", 2)
    monkeypatch.setattr(
        finetune, "data", lambda: {n: synthetic(c, TINY) for n, c in TINY.splits.items()}
    )
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


def test_routes_are_compared_and_what_was_trained_stays(tiny, monkeypatch):
    line = ["--keep", str(tiny / "keep"), "--steps", "20", "--repeats", "3"]
    finetune.main([*line, "--train"])
    assert not list(tiny.glob("*.json"))
    monkeypatch.setattr(finetune, "learn", None)  # all of it is kept
    finetune.main(line)
    (path,) = tiny.glob("finetune-cpu-*.json")
    result = json.loads(path.read_text("utf-8"))
    rows = {row["way"]: row for row in result["rows"]}
    assert list(rows) == list(finetune.WAYS)
    assert rows["features, mean"]["trained"] == 2 * 17 and rows["features, mean"]["passes"] == 1
    assert rows["last layer"]["trained"] < rows["all layers"]["trained"]
    assert rows["from scratch"]["trained"] == rows["all layers"]["trained"]
    assert "better" not in rows["from scratch"] and "margin" in rows["all layers"]
    assert len(rows["all layers"]["accuracies"]) == 2
    assert result["pretraining"]["steps"] == 20


def test_a_pretrained_body_gets_a_new_head(tiny):
    model, _ = finetune_pretraining.pretrain(TINY, torch.randint(4, 40, (8, 24)), 20, rows=2)
    weights = model.state_dict()
    read = finetune.starting("all layers", weights, seed=3).state_dict()
    scratch = finetune.starting("from scratch", weights, seed=3).state_dict()
    for name, value in read.items():
        pretrained = name.startswith("distilbert.")
        assert torch.equal(value, weights[name] if pretrained else scratch[name]), name


def test_the_linear_classifier_takes_features_as_they_are():
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (200,), generator=random)
    features = 100 + 5 * torch.randn(200, 4, generator=random)
    features[:, 2] += 20.0 * labels
    linear = finetune.fit_linear(features, labels)
    assert (linear(features).argmax(1) == labels).float().mean() > 0.95
    again = finetune.fit_linear(features, labels)
    assert torch.equal(linear.weight, again.weight)  # no seed in it
