"""The benchmark of WikiText-2: what its trainings are, and what it makes of their logs."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from benchmarks import record, wikitext2
from benchmarks.wikitext2_alone import CHANGES, Encoder, Reference, rate, recipe, train_alone
from rankbook.models import TransformerLM, preset
from rankbook.programs.pipe_ddp.options import make_plan, read
from rankbook.training import batchify, steps_of_epoch

WORDS, ROWS, STEPS = 60, 4, 8
START = {"start": {"parameters": 7, "data": "WikiText-2: the files of a folder"}}


@pytest.fixture
def text(monkeypatch):
    """So little that both windows of it are learnt by heart."""
    monkeypatch.setattr("benchmarks.wikitext2_alone.ROWS", ROWS)
    ids = torch.randint(WORDS, (ROWS * 71,), generator=torch.Generator().manual_seed(0))
    return SimpleNamespace(vocab=range(WORDS), train=ids, valid=ids, source="made up")


@pytest.mark.parametrize("job", wikitext2.RANKS)
def test_the_programs_options_are_an_epoch_of_wikitext2(job):
    ranks = wikitext2.RANKS[job]
    options = read(ranks.options.split())
    assert make_plan(options, ranks.processes).replicas * options.stages == ranks.processes
    rows = batchify(torch.zeros(2_049_990), options.batch)
    assert options.steps == steps_of_epoch(rows, options.window) == wikitext2.EPOCH


def test_each_recipe_changes_the_one_before():
    assert recipe("the original's")["optimizer"] == "SGD"
    recipes = [recipe(name) for name, _ in CHANGES]
    for (_, change), before, after in zip(CHANGES[1:], recipes, recipes[1:], strict=False):
        assert {key: after[key] for key in after if after[key] != before[key]} == change


def test_rates():
    first, last = recipe("the original's"), recipe("unigram start")
    assert [rate(step, first) for step in (0, 49, 50)] == [5.0, 5.0, 4.75]
    assert [rate(step, last) for step in (0, 19, 79)] == pytest.approx([3e-4, 6e-3, 3e-3])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_no_position_sees_what_it_is_to_predict(norm):
    model = Encoder(torch.ones(WORDS) / WORDS, norm, 0.0, "original").eval()
    ids = torch.zeros(1, 35, dtype=torch.long)
    changed = ids.clone()
    changed[0, -1] = 1
    moved = (model(ids) - model(changed)).abs().amax((0, 2))
    assert moved[-1] > 0 and moved[:-1].max() == 0


def test_the_unigram_start_predicts_frequencies():
    frequencies = torch.arange(1, WORDS + 1) / (WORDS * (WORDS + 1) / 2)
    bias = Encoder(frequencies, "pre", 0.0, "unigram").head.bias
    assert torch.allclose(bias.softmax(0), frequencies)


def test_the_reference_is_of_the_same_size():
    ours = sum(p.numel() for p in TransformerLM(preset("tiny", WORDS)).parameters())
    theirs = sum(p.numel() for p in Reference(WORDS).parameters())
    assert theirs == pytest.approx(ours, rel=0.01)


@pytest.mark.parametrize("name", ["reference", "unigram start"])
def test_a_training_alone_learns_and_is_noted(name, text, tmp_path):
    train_alone(name, STEPS, STEPS // 2, None, tmp_path / "log", text)
    found = wikitext2.read(tmp_path / "log")
    assert [r["step"] for r in found if "valid_loss" in r] == [STEPS // 2, STEPS]
    losses = [r["valid_loss"] for r in found if "valid_loss" in r]
    assert losses[1] < losses[0] < math.log(WORDS) + 1


def test_a_loss_that_is_no_number_ends_the_training(text, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.wikitext2_alone.rate", lambda step, options: math.inf)
    train_alone("the original's", 5, 5, 1, tmp_path / "log", text)
    last = wikitext2.read(tmp_path / "log")[-1]
    assert last["ended"] == "the loss is nan"
    price = wikitext2.price("the original's", [[last]])
    assert price["valid loss"] is None and price["valid losses"] == []
    assert price["ended"] == "the loss is nan, step 2"


def test_results_are_made_of_the_logs(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    logs.mkdir()
    points = [{"step": 12, "loss": 8.25}, {"step": 183, "valid_loss": 6.5}]
    for job, more in {"ranks": 0, "recipe-0-0": 0, "recipe-0-1": 1, "recipe-0-4": 0.25}.items():
        noted = [START, *({key: value + more * (key == "valid_loss") for key, value in r.items()}
                          for r in points)]  # fmt: skip
        (logs / f"{job}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in noted), "utf-8")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(wikitext2, "unigram", lambda: 6.6)
    epoch, prices = (json.loads(p.read_text("utf-8")) for p in wikitext2.write_results(logs))
    assert epoch["rows"] == [{"run": "4 ranks", "step": 183, "valid loss": 6.5}]
    assert epoch["training"] == {"4 ranks": [[12, 8.25]]} and epoch["unigram"] == 6.6
    (row,) = prices["rows"]
    assert row["change"] == "the original's" and row["steps"] == 183
    assert (row["highest training loss"], row["valid loss"], row["ended"]) == (8.25, 6.75, "")
    assert row["valid losses"] == [6.5, 7.5, 6.75]


def test_a_result_without_logs_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(wikitext2, "unigram", lambda: 6.6)
    assert wikitext2.write_results(tmp_path / "none") == []


def test_another_text_is_not_recorded():
    source = "WikiText-2: English prose of this Python in its place (nothing was found)"
    with pytest.raises(ValueError, match="set RANKBOOK_DATA, and do it again"):
        wikitext2.check_data([{"start": {"data": source}}])
