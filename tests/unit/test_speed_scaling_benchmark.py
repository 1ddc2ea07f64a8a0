"""The benchmark of DDP's scaling: command line, arithmetic, and a small run of it."""

import argparse

import torch
import torch.distributed as dist

from benchmarks import speed_scaling
from benchmarks.harness import Here
from rankbook.speed import make_batch, size, synthetic

OPTIONS = argparse.Namespace(ranks=2, rows=24, repeats=3)


def found(**seconds: float) -> dict:
    names = {"one rank": 1.0, "one process": 0.7, "strong": 0.8, "weak": 1.25}
    names |= {"whole, idle": 0.9, "share, idle": 0.45, "Adam, idle": 0.1}
    names |= {"whole, busy": 1.0, "share, busy": 0.5, "Adam, busy": 0.2}
    names |= {"whole, threads": 0.5, "Adam, threads": 0.05} | seconds
    return {"seconds": {name: [value] * 3 for name, value in names.items()},
            "alpha": 0.01, "beta": 1e-9, "parameters": 10_000_000}  # fmt: skip


def test_strong_and_weak_scaling_are_kept_apart():
    rows = {row["way"]: row for row in speed_scaling.table(found(), OPTIONS)}
    assert [rows[way]["rows"] for way in ("one rank", "strong", "weak")] == [24, 24, 48]
    assert (rows["strong"]["efficiency"], rows["strong"]["times one"]) == ("62%", 1.25)
    assert (rows["weak"]["efficiency"], rows["weak"]["times one"]) == ("80%", 1.6)
    assert "efficiency" not in rows["one rank"] and "efficiency" not in rows["one process"]


def test_predictions_are_sums_of_parts():
    rows = {row["way"]: row for row in speed_scaling.table(found(), OPTIONS)}
    assert rows["one rank"]["predicted"] == 1000 and "busy" not in rows["one rank"]
    assert rows["one process"]["predicted"] == 550
    assert (rows["strong"]["predicted"], rows["strong"]["busy"]) == (600, 750)  # 50 ms are sent
    assert (rows["weak"]["predicted"], rows["weak"]["busy"]) == (1050, 1250)


def test_a_gpu_has_no_row_of_threads():
    without = found()
    del without["seconds"]["one process"]
    assert [row["way"] for row in speed_scaling.table(without, OPTIONS)] == [
        "one rank", "strong", "weak"
    ]  # fmt: skip


def test_a_small_run(tmp_path, monkeypatch):
    small = size("cpu", vocab_size=200, layers=1, d_model=32, d_hidden=64, max_length=16)
    monkeypatch.setattr(speed_scaling, "size", lambda name: small)
    monkeypatch.setattr(speed_scaling, "SIZES", [4096, 65_536])
    reviews = synthetic(8, small)
    packed = {n: make_batch(reviews, list(range(n)), "packed") for n in (4, 8)}
    monkeypatch.setattr(speed_scaling, "batch", packed.__getitem__)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        options = argparse.Namespace(ranks=1, rows=4, repeats=3)
        seen = speed_scaling.measure(Here(0, 1, torch.device("cpu")), options)
    finally:
        dist.destroy_process_group()
    assert all(len(times) == 3 for times in seen["seconds"].values())
    rows = speed_scaling.table(seen, options)
    assert [row["way"] for row in rows] == ["one rank", "one process", "strong", "weak"]
    assert len(speed_scaling.parts(seen)) == len(seen["seconds"]) - 4
