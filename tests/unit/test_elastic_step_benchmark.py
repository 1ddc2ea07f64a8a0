"""The benchmark of elastic_step against DDP: what its table says."""

import pytest

from benchmarks import elastic_step


def test_more_is_against_the_same_turn():
    seconds = {"one process": [1.0] * 3, "DDP": [1.0, 2.0, 4.0], "elastic_step": [1.5, 3.0, 6.0]}
    rows = elastic_step.table(64, seconds)
    assert [row["way"] for row in rows] == list(elastic_step.WAYS)
    assert rows[-1]["more"] == pytest.approx([50, 50, 50]) and rows[1]["median"] == 2000
