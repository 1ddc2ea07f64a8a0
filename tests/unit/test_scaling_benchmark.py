"""The benchmarks of scaling and of reading: command lines, arithmetic, and small runs of them."""

import json

import pytest
import torch
import torch.distributed as dist

from benchmarks import scaling, scaling_reading
from benchmarks.harness import Here
from benchmarks.record import RESULTS


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield Here(0, 1, torch.device("cpu"))
    dist.destroy_process_group()


def test_rates_are_of_all_rows_and_efficiency_of_one_rank(monkeypatch):
    monkeypatch.setattr(scaling, "ROWS", 8)
    seconds = {("weak", 1): [0.01] * 3, ("strong", 1): [0.02] * 3,
               ("weak", 2): [0.02] * 3, ("strong", 2): [0.02] * 3}  # fmt: skip
    hidden = {("weak", 1): [], ("strong", 1): [], ("weak", 2): [0.5] * 3, ("strong", 2): [0.25] * 3}
    found = {"seconds": seconds, "hidden": hidden}
    rows = scaling.table(found)
    assert [row["rows/s"] for row in rows] == [800, 400, 800, 400]
    assert [row["efficiency"] for row in rows] == ["100%", "100%", "50%", "50%"]
    assert [row.get("hidden") for row in rows] == [None, None, "50%", "25%"]
    drawn = scaling.picture(found, [])
    assert [row["median"] for row in drawn["hidden"]] == [0.5, 0.25]
    assert drawn["rates"][2] == {"kind": "weak", "ranks": 2, "rate": 800}


def test_what_one_rank_keeps(alone, monkeypatch):
    monkeypatch.setattr(scaling, "WIDE", 16)
    found = scaling.measure_memory(alone, "DDP")
    numbers = scaling.LAYERS * (16 * 16 + 16)
    assert found["parameters"] == found["gradients"] == 4 * numbers
    counters = 4 * 2 * scaling.LAYERS  # Adam's step, of each tensor
    assert found["state"] == 8 * numbers + counters and found["buckets"] == 0
    row = scaling.memory_row({"way": "DDP", "ranks": 1} | found | {"process": 3 * 2**20})
    assert row["kind"] == "DDP" and row["process MiB"] == 3.0


def test_a_storage_counts_once():
    model = torch.nn.Linear(4, 4, bias=False)
    bucket = torch.zeros(16)
    model.weight.grad = bucket.view(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = scaling.held(model, optimizer, scaling.storages([bucket]))
    assert found == {"parameters": 64, "gradients": 64, "state": 0, "buckets": 0}
    model.weight.grad = bucket.view(4, 4).clone()
    assert scaling.held(model, optimizer, scaling.storages([bucket]))["buckets"] == 64


def test_a_part_that_is_there_is_not_measured_again(tmp_path):
    torch.save({"way": 1}, tmp_path / "part")
    assert scaling.part(tmp_path / "part", 2, pytest.fail) == {"way": 1}


def test_steps_of_one_rank_are_timed(alone, monkeypatch):
    monkeypatch.setattr(scaling, "WIDTH", 8)
    found = scaling.time_steps(alone, [1], repeats=2, steps=1)
    assert found["seconds"].keys() == {("weak", 1), ("strong", 1)}
    assert all(second > 0 for row in found["seconds"].values() for second in row)


def test_there_are_lines_enough():
    lines = scaling_reading.enough(5000).split("\n")
    assert len(lines) >= 15000 and all(line.strip() for line in lines)


def test_ratios_are_of_neighbours_in_time():
    first, own = scaling_reading.FIRST, scaling_reading.SHARES
    rows = scaling_reading.table({2: {(first, 0): [1e3, 2e3, 4e3], (own, 0): [3e3, 4e3, 4e3]}})
    assert [row["median"] for row in rows] == [2, 4]
    assert rows[1]["times"] == 2 and "times" not in rows[0]


def recorded(name):
    return json.loads((RESULTS / f"{name}-cpu-2.json").read_text("utf-8"))["rows"]


def test_the_page_says_what_was_recorded_of_steps():
    rate = {(r["kind"], r["ranks"]): r["rows/s"] for r in recorded("scaling") if "rows/s" in r}
    assert 1.25 < rate["weak", 2] / rate["weak", 1] < 1.4, "a third more"
    assert rate["strong", 2] < rate["strong", 1], "it already takes something away"
    assert 0.15 < rate["strong", 8] / rate["strong", 1] < 0.25, "a fifth"
    kept = {
        (r["kind"], r["ranks"]): r["process MiB"] for r in recorded("scaling") if "process MiB" in r
    }
    assert all(kept["FSDP", n] > 0.95 * kept["DDP", n] for n in (2, 4, 8)), "as much, or more"


def test_the_page_says_what_was_recorded_of_reading():
    rate = {(r["way"], r["ranks"], r["workers"]): r["median"] for r in recorded("scaling_reading")}
    for workers in scaling_reading.WORKERS:
        first = rate[scaling_reading.FIRST, 4, workers] / rate[scaling_reading.FIRST, 1, workers]
        assert first < 1, "somewhat fewer for four ranks than for one"
    own = {n: [rate[scaling_reading.SHARES, ranks, n] for ranks in (1, 2)] for n in (0, 2)}
    assert own[0][1] > 1.2 * own[0][0], "the second rank brings its core"
    assert own[2][1] < 1.05 * own[2][0], "with two workers it adds nothing"
