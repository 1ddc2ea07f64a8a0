"""The benchmark at the text's size, here on a tiny model: its rows, and how it goes on."""

import gc
import json

import pytest
import torch

from benchmarks import record, speed_full
from rankbook.speed.recipes import changed
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import SIZES, size

TINY = {"layers": 1, "d_model": 16, "d_hidden": 32, "heads": 2, "vocab_size": 50, "max_length": 24}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Small sizes, reviews without a tokenizer, a folder for the result; a thread is enough.

    The program collects garbage after each turn: what other tests have left is none of its.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    for name in ("cpu", "full"):
        monkeypatch.setitem(SIZES, name, size(name, **TINY, samples=36, validation=4, test=4))
    monkeypatch.setattr(speed_full, "tokenised", lambda of: {"train": synthetic(of.samples, of)})
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    chosen = [r for r in speed_full.recipes(4) if r.name in ("plain", "packed", "longest of batch")]
    chosen[-1] = chosen[-1].replace(base="longest of batch")
    monkeypatch.setattr(speed_full, "recipes", lambda steps: chosen)
    yield tmp_path
    gc.unfreeze()
    torch.set_num_threads(threads)


def test_each_row_is_one_switch_from_its_base():
    for steps in (4, 1):
        rows = {row.name: row for row in speed_full.recipes(steps)}
        for row in rows.values():
            if row.base:
                assert len(changed(row, rows[row.base])) == 1, row.name
        assert ("bucketed" in rows) == (steps > 1)  # one batch cannot be sorted into others
    assert rows["bf16"].batching == rows["plain"].batching == "longest of all"


def test_reviews_stand_for_all_by_their_lengths():
    all_reviews = synthetic(400, size("cpu"))
    few = speed_full.standing_for_all(all_reviews, 48)
    whole, part = all_reviews.lengths.float(), few.lengths.float()
    assert len(few) == 48 and abs(part.mean() / whole.mean() - 1) < 0.03
    assert abs((part == 512).float().mean() - (whole == 512).float().mean()) < 0.03


def test_it_goes_on_where_it_stopped(tiny, monkeypatch):
    line = ["--repeats", "3", "--steps", "1"]
    take, calls = speed_full.timed, []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return take(*arguments)

    monkeypatch.setattr(speed_full, "timed", stops)
    monkeypatch.setattr(speed_full, "load_average", lambda: 1.7)
    with pytest.raises(KeyboardInterrupt):
        speed_full.main(line)
    (kept,) = tiny.glob(".speed_full-cpu-*.turns.json")
    before = json.loads(kept.read_text("utf-8"))["seconds"]
    monkeypatch.setattr(speed_full, "timed", take)
    monkeypatch.setattr(speed_full, "load_average", lambda: 0.2)
    speed_full.main(line)
    (path,) = tiny.glob("speed_full-cpu-*.json")
    result = json.loads(path.read_text("utf-8"))
    assert result["load"] == 1.7  # the busier of the two starts
    rows = {row["name"]: row for row in result["ladder"]}
    assert [row["repeats"] for row in rows.values()] == [3, 3, 3]
    for name, turns in before.items():
        assert rows[name]["turns"][: len(turns)] == turns  # none was measured again
    assert not kept.exists()


def test_other_options_begin_anew(tiny):
    kept = speed_full.Kept(tiny / ".turns.json", steps=1)
    kept.add("plain", 1.0)
    assert speed_full.Kept(kept.path, steps=1).seconds == {"plain": [1.0]}
    assert speed_full.Kept(kept.path, steps=2).seconds == {}
