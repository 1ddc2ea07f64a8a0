"""The benchmark of layouts: its command line, its arithmetic, and what its record promises."""

import json

import pytest
import torch

from benchmarks import layouts
from benchmarks.record import RESULTS
from rankbook.parallel.mesh import Layout
from rankbook.predict.cost_model.layouts import StepCosts


def test_layouts_have_as_many_ranks_as_they_say():
    for ranks, found in layouts.LAYOUTS.items():
        assert {Layout.parse(*layout).ranks for layout in found} == {ranks}


def test_the_mean_counts_ranks_that_send_nothing():
    assert layouts.mean([{"tp": 4.0}, {"tp": 2.0, "pp": 6.0}]) == {"tp": 3.0, "pp": 3.0}


def test_the_busiest_rank_is_asked():
    """In a pipeline of four, the stages in the middle send in both directions."""
    sent = layouts.busiest(Layout.parse("pp=4"))
    assert sent["pp", "send"].bytes == 2 * 4 * layouts.ROWS * layouts.WINDOW * 128


def note(took: float) -> dict:
    """What a launch notes: a line of 1 ms and 1 ns a byte for each operation."""
    line = [torch.full((2,), 1e-3 + size * 1e-9) for size in layouts.MESSAGES]
    return {
        "few": [took], "many": [took + 1.4], "tensor few": [took + 0.5], "update": [0.3],
        "messages": {"all_reduce": line, "send": line},
    }  # fmt: skip


def test_costs_are_medians_over_launches():
    notes = {world: [note(0.4), note(0.9), note(0.5)] for world in (1, 4)}
    costs = layouts.costs_of(4, notes)
    assert costs.row == pytest.approx(0.1) and costs.a_pass == pytest.approx(0.3)
    assert costs.tensor_pass == pytest.approx(0.8) and costs.update == 0.3
    assert costs.lines["send"] == pytest.approx((1e-3, 1e-9), rel=1e-2)
    assert costs.lines["all_reduce"] == pytest.approx((1e-3 / 6, 4e-9 / 6), rel=1e-2)


def test_a_row_says_how_far_the_prediction_is_off():
    costs = StepCosts(0.01, 0.0, 0.0, 0.0, 1, {"all_reduce": (0.0, 0.0)})  # a step takes 0.16 s
    row = layouts.row_of(("dp=2", "none"), [0.2, 0.32, 0.4], {"dp": 2048.0}, costs)
    assert row["median"] == 512 / 0.32 and row["predicted"] == 3200.0
    assert row["error"] == 1.0  # twice as fast
    assert (row["dp KiB"], row["tp KiB"]) == (2.0, 0.0)
    assert "predicted" not in layouts.row_of(("dp=1", "none"), [0.2, 0.2, 0.2], {}, None)


def test_the_record_has_every_layout_and_its_bytes_by_formula():
    result = json.loads((RESULTS / "layouts-cpu-2.json").read_text("utf-8"))
    rows = result["rows"]
    every = [layout for found in layouts.LAYOUTS.values() for layout in found]
    assert [(row["layout"], row["shard"]) for row in rows] == every
    for row in rows:
        mesh = Layout.parse(row["layout"], row["shard"])
        sent = [layouts.foretold(mesh, rank).by_dimension() for rank in range(mesh.ranks)]
        mean = layouts.mean([{name: count.ring for name, count in each.items()} for each in sent])
        for name in ("pp", "dp", "tp"):
            assert row[f"{name} KiB"] == round(mean.get(name, 0.0) / 1024, 1)
        if mesh.ranks > 1:
            error = row["predicted"] / row["median"] - 1
            assert row["error"] == pytest.approx(error, abs=2e-3)
    assert result["median_error"] > 0 and set(result["costs"]) == {"2", "4", "8"}
