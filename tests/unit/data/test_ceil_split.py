"""`CeilSplitLines`: its shares, its faults, and how many lines it reads for them.

tests/originals holds it to the listing that it re-creates.
"""

import io
import itertools
from types import SimpleNamespace

import pytest

from rankbook.data import CeilSplitLines, ceil_split


@pytest.fixture
def shares(monkeypatch):
    """Return a function: what each reader gives, in turn."""

    def run(path, lines: int, ranks: int, workers: int, rounds: int | None = 1) -> list[list[str]]:
        found = []
        for rank, worker in itertools.product(range(ranks), range(workers)):
            info = SimpleNamespace(id=worker, num_workers=workers)
            monkeypatch.setattr(ceil_split, "get_worker_info", lambda info=info: info)
            dataset = CeilSplitLines(path, lines, rank, ranks, rounds)
            found.append(list(itertools.islice(dataset, 100)))
        return found

    return run


@pytest.fixture
def nine(tmp_path):
    path = tmp_path / "nine.txt"
    path.write_text("".join(f" {i} \n" for i in range(9)), "utf-8")
    return path


def test_nine_lines_for_four_readers(shares, nine):
    expected = [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"], ["", "", ""]]
    assert shares(nine, 9, ranks=2, workers=2) == expected
    assert shares(nine, 9, 2, 2, rounds=10) == [lines * 10 for lines in expected]
    assert all(len(lines) == 100 for lines in shares(nine, 9, 2, 2, rounds=None))


def test_without_a_remainder_it_is_right(shares, nine):
    assert shares(nine, 9, ranks=3, workers=3) == [[str(i)] for i in range(9)]


def test_readers_skip_their_way_from_the_start(shares, monkeypatch):
    """160 readers, one after the other: together they read each line 80.5 times."""
    lines, read = 320, []

    class Counted(io.StringIO):
        def readline(self, *size):
            read.append(super().readline(*size))
            return read[-1]

    monkeypatch.setattr(ceil_split.Path, "open", lambda *_, **__: Counted("x\n" * lines))
    assert shares("lines.txt", lines, ranks=16, workers=10) == [["x", "x"]] * 160
    assert len(read) / lines == 80.5


def test_ranks_from_the_environment(monkeypatch, nine):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = CeilSplitLines(nine, 9)
    assert (dataset.rank, dataset.world_size) == (1, 2)
    monkeypatch.delenv("RANK")
    with pytest.raises(KeyError, match="RANK"):
        CeilSplitLines(nine, 9)


def test_without_workers_it_fails(nine):
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'num_workers'"):
        next(iter(CeilSplitLines(nine, 9, 0, 1)))
