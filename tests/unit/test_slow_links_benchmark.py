"""The benchmark of slow links: its predictions, its command line, what its record promises."""

import json

import pytest

from benchmarks.slow_links import CABLES, DELAY, FILE, RATE, WAYS, foretell

RECORD = json.loads(FILE.read_text("utf-8"))
ROWS = {(row["way"], row["seed"]): row for row in RECORD["rows"]}


def last(way: str, what: str, seed: int = 0) -> float:
    return ROWS[way, seed][what][-1]


def test_a_step_is_what_is_computed_and_a_ring_of_two():
    row = {"bits_per_second": 8e6, "delay_ms": 20.0, "compute": 0.1, "bytes": 1_000_000}
    found = foretell(row | {"median": 1.0, "alpha": 0.05}, alpha=0.005)
    assert found["predicted"] == pytest.approx(0.1 + 2 * (0.025 + 0.5))
    assert found["error"] == pytest.approx(0.15)
    assert found["by message"] == pytest.approx(0.1 + 2 * (0.05 + 0.5))


def test_the_record_is_of_these_cables_and_ways():
    assert (RECORD["bits_per_second"], RECORD["delay_ms"]) == (RATE, 1000 * DELAY)
    assert sorted(ROWS) == sorted((way.name, seed) for way in WAYS for seed in way.seeds)
    cables = [(step["bits_per_second"], step["delay_ms"] / 1000) for step in RECORD["steps"]]
    assert cables == list(CABLES)
    assert "WikiText-2" in RECORD["data"] and "prose" not in RECORD["data"]


def test_what_was_counted_is_what_the_kernel_saw():
    """Besides headers, 66 of 1,514 bytes, there are acknowledgements, and what is sent again."""
    for row in RECORD["rows"]:
        assert row["sent"][-1] <= row["cable"] < 1.15 * row["sent"][-1], row["way"]


def test_no_cable_is_faster_than_it_is():
    for step in RECORD["steps"]:
        if step["bits_per_second"]:
            assert step["median"] > 8 * step["bytes"] / step["bits_per_second"]
            assert step["sent"] >= step["bytes"]


def test_what_the_page_says_of_bytes_and_losses():
    for seed in (0, 1):
        with_feedback, without = (last(f"top-k 1 %{end}", "loss", seed)
                                  for end in ("", ", no feedback"))  # fmt: skip
        assert with_feedback < without
        assert last("DDP", "loss", seed) < last("DiLoCo 20", "loss", seed)
    assert last("sign", "loss") < last("sign, no feedback", "loss")
    assert last("DDP", "sent") == pytest.approx(100 * last("DiLoCo 100", "sent"), rel=1e-4)
    assert last("DDP", "sent") == pytest.approx(20 * last("LocalSGD 20", "sent"), rel=1e-4)
    assert last("DDP", "seconds") > 5 * last("LocalSGD 20", "seconds")
