"""What benchmarks of ranks share: their start, turns, the slowest rank, and parts that are kept."""

import torch
import torch.distributed as dist

from benchmarks import harness
from benchmarks.harness import Here, about, interleaved, kept, most, on_ranks, show, slowest


def seen(here: Here, name: str) -> dict:
    """What a rank knows of itself, and that all have called."""
    mine = torch.tensor(here.rank + 1)
    dist.all_reduce(mine)
    most_of_all = most({"rank": here.rank, "minus": -here.rank})
    late = slowest(lambda: None)
    return {"name": name, "sum": mine, "most": most_of_all, "ranks": here.ranks} | {
        "rank": here.rank, "threads": torch.get_num_threads(), "late": late,
        "device": here.device.type, "backend": dist.get_backend(),
    }  # fmt: skip


def test_ranks_start_and_rank_0_tells():
    found = on_ranks(2, seen, "a name")
    assert found.pop("late") > 0 and found.pop("sum").item() == 3
    assert found == {
        "name": "a name", "most": {"rank": 1, "minus": 0}, "ranks": 2, "rank": 0, "threads": 1,
        "device": "cpu", "backend": "gloo",
    }  # fmt: skip


def test_every_other_turn_goes_backwards_and_the_warm_up_is_not_kept():
    order, numbers = [], iter(range(99))
    ways = {way: lambda way=way: (order.append(way), next(numbers))[1] for way in "abc"}
    assert interleaved(ways, repeats=2, warm_up=1) == {"a": [3, 8], "b": [4, 7], "c": [5, 6]}
    assert "".join(order) == "abc" + "abc" + "cba"


def test_what_was_kept_is_not_made_again(tmp_path):
    path, made = tmp_path / "new" / "part", []
    for _ in range(2):
        assert kept(path, lambda: made.append(1) or {("a", 1): [0.5]}) == {("a", 1): [0.5]}
    assert made == [1] and [p.name for p in path.parent.iterdir()] == ["part"]


def test_a_record_says_its_ranks_and_the_load(monkeypatch, capsys):
    monkeypatch.setattr(harness.os, "getloadavg", lambda: (1.26, 0, 0))
    assert about(4) == {"kind": "CPU", "ranks": 4, "backend": "gloo", "load": 1.3}
    show({"way": "ring", "median": 2.5}, {"way": "tree"})
    assert capsys.readouterr().out == "way ring  median 2.5\nway tree\n"
