"""The recorded lengths are whole, and counted rightly."""

import json

from benchmarks.imdb_lengths import lines, table
from benchmarks.record import RESULTS


def test_lengths_are_counted_in_ranges():
    rows = table([3, 127, 128, 400])
    assert [row["reviews"] for row in rows] == [2, 1, 0, 1]
    assert [row["tokens"] for row in rows] == ["0 to 127", "128 to 255", "256 to 383", "384 to 511"]


def test_numbers_come_in_lines():
    assert lines([*range(45)])[2] == "40 41 42 43 44"


def test_the_file_has_every_review_once():
    recorded = json.loads((RESULTS / "imdb_lengths.json").read_text("utf-8"))
    lengths, epoch = (
        [int(number) for line in recorded[key] for number in line.split()]
        for key in ("lengths", "epoch")
    )
    assert len(lengths) == sum(row["reviews"] for row in recorded["rows"]) == 960 + 240 + 480
    assert sorted(epoch) == [*range(len(lengths))]
    assert table(lengths) == recorded["rows"]
