"""Roofline, trace and checked predictions: what they write, and what they refuse."""

from types import SimpleNamespace

import matplotlib
import pytest

import plots


class Part(SimpleNamespace):
    def seconds(self, machine):
        return self.took


class Whole(SimpleNamespace):
    def by_kind(self):
        return self.parts


def words(figure):
    return " ".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


MACHINE = SimpleNamespace(products={"float32": 1e11, "bf16": 4e11}, bytes_per_s=2e10, ridge=20.0)


def test_a_roofline_names_the_kinds_and_what_they_reached():
    parts = {
        "matmul": Part(flop=1e9, intensity=30.0, took=0.01),
        "softmax": Part(flop=1e6, intensity=0.5, took=0.001),
        "copy": Part(flop=0.0, intensity=0.0, took=0.001),
    }
    figure = plots.roofline(Whole(parts=parts), MACHINE, {"matmul": 0.02})
    assert "matmul: 50 GFLOP/s" in words(figure) and "20 GB/s" in words(figure)
    assert "copy" not in words(figure)
    with pytest.raises(ValueError, match="roofline: no operation"):
        plots.roofline(Whole(parts={"copy": parts["copy"]}), MACHINE)


def span(kind, start, end):
    return SimpleNamespace(name=kind, kind=kind, start=start, end=end)


@pytest.mark.given("large", "small")
def test_a_trace_has_a_row_for_each_kind_and_one_for_the_gaps():
    found = SimpleNamespace(
        spans=[span("matmul", 0.0, 0.6)], marks=[span("forward", 0.0, 0.5)], seconds=1.0,
        gaps=[(0.6, 1.0)], gap_share=0.4, by_kind=lambda: {"matmul": 0.6},
    )  # fmt: skip
    text = words(plots.step_trace({"large": found, "small": found}))
    assert all(word in text for word in ("large", "small", "forward", "nothing runs", "40%", "60%"))
    with pytest.raises(ValueError, match="step_trace: no operations"):
        plots.step_trace(SimpleNamespace(spans=[]))


def test_predictions_stand_beside_what_was_measured():
    rows = [
        {"switch": "packing", "predicted": 2.5, "measured": 2.25, "p10": 2.0, "p90": 2.6},
        {"switch": "fused Adam", "predicted": 1.5},
    ]
    text = words(plots.predictions_checked(rows)).split()
    assert text[:4] == ["2.25", "2.50", "–", "1.50"], "by row: measured, predicted"
    assert text[4:6] == ["measured", "predicted"], "the heads of the columns"
