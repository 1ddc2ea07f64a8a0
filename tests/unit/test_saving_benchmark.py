"""The benchmark of saving: what its table says, and what its command line refuses."""

import pytest

from benchmarks import saving


def test_a_row_a_way_and_measure():
    seconds = {(way, name): [0.1, 0.2, 0.3] for way in saving.WAYS for name in
               ("stands still", "durable after", "block")}  # fmt: skip
    seconds["ours", "block"] = [0.15, 0.26, 0.31]
    rows = saving.table(64, seconds)
    assert len(rows) == 3 * (len(saving.WAYS) - 1)
    (more,) = [row for row in rows if (row["way"], row["measured"]) == ("ours", "more")]
    assert more["median"] == pytest.approx(50) and more["repeats"] == 3  # against its own turn
    assert more["MB"] == round(saving.nbytes(64) / 1e6, 1) == 0.2


def test_ways_that_were_not_measured_have_no_row():
    assert saving.table(64, {("ours", "stands still"): [1.0, 1.0, 1.0]}) == [
        {"MB": 0.2, "way": "ours", "measured": "stands still", "repeats": 3, "median": 1000.0,
         "p10": 1000.0, "p90": 1000.0}
    ]  # fmt: skip
