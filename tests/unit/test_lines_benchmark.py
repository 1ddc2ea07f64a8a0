"""The benchmark of line readers: its command line, its file, and all of it on a small one."""

import json
from itertools import pairwise

import pytest

from benchmarks import lines, record
from rankbook.data import Reader


def test_both_ways_read_the_file(tmp_path):
    path = tmp_path / "lines.txt"
    made = lines.make(path, 0.3)
    assert path.stat().st_size == pytest.approx(3e5, rel=0.2)
    whole = path.read_text().splitlines()
    assert len(whole) == made == lines.count(path)
    readers = [Reader(rank, 4, worker, 2) for rank in range(4) for worker in range(2)]
    assert [line for r in readers for line in lines.original(path, made, r)] == whole
    assert [line for r in readers for line in lines.ours(path, r, shuffle=False)] == whole
    shuffled = [line for r in readers for line in lines.ours(path, r, shuffle=True)]
    assert sorted(shuffled) == sorted(whole) and shuffled != whole


def test_a_small_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    (tmp_path / "here").mkdir()
    options = "--megabytes 0.1 --ranks 2 --workers 2 --repeats 3 --folder"
    lines.main([*options.split(), str(tmp_path / "here")])
    result = json.loads((tmp_path / "lines-4.json").read_text())
    assert not list((tmp_path / "here").iterdir()), "the file is removed"
    assert "4 readers (2 ranks x 2 loader workers)" in result["what"]
    rows = {(row["way"], row["until"]): row for row in result["rows"]}
    assert len(rows) == 9 and {row["repeats"] for row in rows.values()} == {3}
    for way in (lines.ORIGINAL, lines.OURS, lines.SHUFFLED):
        waits = [rows[way, until] for until in ("it can begin", "first line", "whole share")]
        for before, after in pairwise(waits):  # one run, one start: no wait ends before another
            assert all(before[each] <= after[each] for each in ("median", "p10", "p90"))
    assert capsys.readouterr().out.count(" ms (") == 9
