"""Who reads, and how often each sample was read."""

import pytest
import torch
from torch.utils.data import DataLoader

from rankbook.data import (
    Reader,
    audit_samples,
    collate_with_reader,
    gather_audit,
    samples_by_reader,
)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_every_reader_has_a_number_of_its_own():
    readers = [Reader(rank, 3, worker, 2) for rank in range(3) for worker in range(2)]
    assert [reader.index for reader in readers] == list(range(6))
    assert {reader.count for reader in readers} == {6}


def test_names():
    assert str(Reader(1, 2, 0, 2)) == "rank 1, worker 0"
    assert str(Reader(1, 2)) == "rank 1"


@pytest.mark.parametrize("numbers", [(2, 2), (-1, 2), (0, 0), (0, 1, 1, 1), (0, 1, 0, 0)])
def test_numbers_out_of_range(numbers):
    with pytest.raises(ValueError, match=r"Reader: (rank|worker) -?\d of \d"):
        Reader(*numbers)


def test_here(monkeypatch):
    assert Reader.here() == Reader(0, 1, 0, 1)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert Reader.here() == Reader(3, 4, 0, 1)
    assert Reader.here(rank=0, world_size=1) == Reader()
    monkeypatch.delenv("RANK")
    with pytest.raises(ValueError, match="RANK and WORLD_SIZE go together"):
        Reader.here()


def test_here_in_workers(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = DataLoader(range(5), batch_size=1, num_workers=2, collate_fn=collate_with_reader)
    found = samples_by_reader(loader)
    assert found == {"rank 1, worker 0": [0, 2, 4], "rank 1, worker 1": [1, 3]}


def test_seen():
    audit = audit_samples({"a": [0, 1, 2, 1], "b": [2, 1, "", ""]}, 5)
    assert (audit.once, audit.twice, audit.more, audit.never, audit.extra) == (1, 1, 1, 2, 2)
    assert [audit.which(times) for times in range(4)] == [[3, 4], [0], [2], [1]]
    assert audit.total == 5 and not audit.exactly_once
    assert str(audit) == (
        "5 samples: 1 once, 1 twice, 1 more often, 2 never; and 2 that are not in the set"
    )
    assert audit.by_reader == {"a": [0, 1, 2, 1], "b": [2, 1, "", ""]}


@pytest.mark.parametrize(
    ("read", "samples", "right"),
    [
        ([[0, 2], [1]], 3, True),
        ([["b"], ["a"]], ["a", "b"], True),
        ([[], []], 0, True),
        ([[0, 2], [1, 3]], 3, False),  # all once, and something else
        ([[0], [0]], 1, False),
        ([[0], []], 2, False),
    ],
)
def test_exactly_once(read, samples, right):
    audit = audit_samples(read, samples)
    assert audit.exactly_once is right
    assert list(audit.by_reader) == ["rank 0", "rank 1"]


def test_samples_that_cannot_be_told_apart():
    with pytest.raises(ValueError, match="some samples of the set are equal"):
        audit_samples([[]], ["a", "a"])
    for sample, kind in (({"id": 0}, "dict"), (torch.tensor(0), "Tensor"), ([0], "list")):
        with pytest.raises(TypeError, match=f"numbers or text, not {kind}"):
            audit_samples([[sample]], 1)


def test_reading_with_a_key():
    loader = DataLoader([{"id": i} for i in range(3)], batch_size=2, collate_fn=collate_with_reader)
    assert samples_by_reader(loader, key=lambda sample: sample["id"]) == {"rank 0": [0, 1, 2]}


def test_readers_are_in_the_order_of_their_numbers():
    batches = [(Reader(0, 1, worker, 12), [worker]) for worker in (10, 2, 1)]
    assert [samples[0] for samples in samples_by_reader(batches).values()] == [1, 2, 10]


def test_gathering_in_one_process():
    assert gather_audit(iter([0, 1]), 2).by_reader == {"rank 0": [0, 1]}
    assert str(gather_audit({"me": [0]}, 2)) == "2 samples: 1 once, 0 twice, 1 never"
