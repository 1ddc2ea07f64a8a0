"""The benchmarks of speed: their command lines and their arithmetic, on a tiny model."""

import gc
import json

import pytest
import torch

from benchmarks import padding, record, speed, speed_accuracy, speed_many
from rankbook.speed import recipes
from rankbook.speed.ladder import run as run_ladder
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import SIZES, size
from rankbook.speed.strategies import STRATEGIES

TINY = {"layers": 1, "d_model": 16, "d_hidden": 32, "heads": 2, "vocab_size": 50, "max_length": 24}
KEPT = {"parameters": 2**20, "gradients": 2**20, "state": 2**21, "buffers": 0}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Small sizes, reviews without a tokenizer, a folder for the result; a thread is enough."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()  # what other tests have left: none of the programs' garbage
    monkeypatch.setitem(SIZES, "cpu", size("cpu", **TINY, samples=24, validation=4, test=4))
    monkeypatch.setattr(padding, "WIDE", {"max_length": 400})  # texts of several lengths

    def tokenised(of_size):
        return {name: synthetic(count, of_size) for name, count in of_size.splits.items()}

    monkeypatch.setattr(speed, "tokenised", tokenised)
    monkeypatch.setattr(padding, "tokenised", tokenised)
    monkeypatch.setattr(speed_accuracy, "tokenised", tokenised)
    two = [recipes.recipe(name, "cpu") for name in ("plain", "seldom", "bucketed")]
    monkeypatch.setattr(speed_accuracy, "ladder", lambda name: two)
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(speed, "ladder", lambda name: recipes.ladder(name)[:2])
    yield tmp_path
    gc.unfreeze()
    torch.set_num_threads(threads)


def test_padding_is_held_against_its_arithmetic(tiny, monkeypatch):
    """Its times are made up after one pass of each way, so that the shares are known."""
    seconds = {"longest of all": 4.0, "longest of batch": 3.0, "bucketed": 2.0, "packed": 1.0}

    def run(recipes, of_size, reviews, repeats):
        rows = run_ladder(recipes, of_size, reviews, repeats=1, steps=1)
        for row in rows:
            row["seconds"] = dict.fromkeys(("median", "p10", "p90"), seconds[row["name"]])
            row["times"] = dict.fromkeys(("median", "p10", "p90"), 4 / seconds[row["name"]])
        return rows

    monkeypatch.setattr(padding, "run", run)
    padding.main(["--repeats", "3", "--steps", "2"])
    (path,) = tiny.glob("speed-padding-cpu-*.json")
    result = json.loads(path.read_text("utf-8"))
    ways = {row["batching"]: row for row in result["padding"]}
    assert {way: row["median"] for way, row in ways.items()} == seconds
    assert {way: row["gain"]["median"] for way, row in ways.items()} == {
        way: 4 / time for way, time in seconds.items()
    }
    assert all("gain" not in row for row in result["rows"])
    assert ways["longest of all"]["recovered"] == 0 and ways["packed"]["arithmetic"] == 1
    most = ways["longest of all"]["arithmetic"]
    assert most > ways["bucketed"]["arithmetic"] > 1
    for way, row in ways.items():
        assert row["recovered"] == pytest.approx((4 - seconds[way]) / (4 - 4 / most), abs=1e-3)


def test_the_ladder_is_flat_rows_and_whole_ones(tiny):
    speed.main(["--repeats", "3", "--steps", "1"])
    (path,) = tiny.glob("speed-cpu-*.json")
    result = json.loads(path.read_text("utf-8"))
    assert [row["name"] for row in result["ladder"]] == ["plain", "seldom"]
    assert len(result["rows"]) == 2
    assert all(
        not isinstance(value, dict | list) for row in result["rows"] for value in row.values()
    )


def test_accuracies_are_written_and_not_trained_again(tiny, capsys):
    speed_accuracy.main(["--seeds", "2"])
    (path,) = tiny.glob("speed_accuracy-cpu.json")
    result = json.loads(path.read_text("utf-8"))
    plain = result["rows"][0]
    assert plain["seeds"] == 2 and plain["difference"] == "+0.0%"
    assert [len(row["seeds"]) for row in result["accuracies"]] == [2, 2]
    assert "plain, seed 1" in capsys.readouterr().out
    speed_accuracy.main(["--seeds", "2"])
    assert capsys.readouterr().out == ""


def test_one_of_equal_recipes_is_trained_for_all():
    names = [each.name for each in speed_accuracy.different(recipes.ladder("cpu"))]
    assert names[:2] == ["plain", "bucketed"] and {"fp16", "bf16", "compile", "4x batch"} < set(
        names
    )
    assert not {"seldom", "packed", "sdpa", "fused", "accumulation"} & set(names)


def test_a_way_that_did_not_run_is_not_left_out(monkeypatch):
    monkeypatch.setattr(padding, "run", lambda *_, **__: [{"name": "packed", "error": "no memory"}])
    with pytest.raises(RuntimeError, match="packed did not run"):
        padding.timed(size("cpu"), synthetic(4, size("cpu")), 3)


def test_ways_are_compared_with_one_process():
    options = speed_many.parse(["--batch", "24"])
    seconds = {("alone", 1): [0.4, 0.4, 0.4], ("alone", 2): [0.3] * 3, ("ddp", 1): [0.25] * 3}
    found = {"seconds": seconds, "memory": dict.fromkeys((*STRATEGIES, "alone"), KEPT)}
    found |= {"traffic": {"ddp": (2.0, 2**21)}, "parameters": 2**18}
    rows = speed_many.table(found, options)
    assert [row["times alone"] for row in rows] == [1.0, 1.33, 1.6]
    assert rows[2]["samples/s"] == 96 and rows[2]["sent MiB"] == 2 and rows[2]["state MiB"] == 2
    assert speed_many.rates(rows, 2) == {"ddp": {1: 60.0, 2: 96.0}}
    memory = {row["strategy"]: row for row in speed_many.memory(found, 2)}
    assert list(memory) == list(STRATEGIES)
    assert memory["ddp"]["formula"]["state"] == 2**21
    assert memory["fsdp2"]["formula"]["state"] == 2**20
