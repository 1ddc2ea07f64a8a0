"""The benchmark of live ranks: its command line, its ratios, and what it calls a leak."""

from benchmarks import live
from benchmarks.rival_systems import ipyparallel, ranks


def test_systems_of_other_sizes():
    assert ranks(4, "--no-check").start[-1] == "%ranks start -n 4 --no-check"
    assert ranks(2).name == "%%ranks" != ranks(2, "--no-check").name
    start = ipyparallel(4).start[0]
    assert "Cluster(n=4" in start and 'WORLD_SIZE="4"' in start and "{n}" not in start


def test_ratios_are_of_medians():
    plain = [0.008, 0.010, 0.012]
    times = {("a plain cell", "trivial"): plain, ("%%ranks", "all_reduce"): [0.02, 0.025, 0.9]}
    rows = live.rows_of(times, plain, 2, "ms", 1000.0)
    assert [(row["median"], row["times"]) for row in rows] == [(10.0, 1.0), (25.0, 2.5)]
    assert rows[1] | {"ranks": 2, "system": "%%ranks", "cell": "all_reduce"} == rows[1]


def test_what_has_grown_is_a_leak_but_memory():
    first = {"file descriptors": 50, "threads": 20, "memory, MB": 90.0, "starts": 0}
    between = first | {"file descriptors": 58}
    last = first | {"threads": 21, "memory, MB": 95.5, "starts": 200}
    rows = live.compared([first, between, last])
    assert [row["of the kernel"] for row in rows] == ["file descriptors", "threads", "memory, MB"]
    assert rows[0] | {"before": 50, "after": 50, "most": 58, "starts": 200} == rows[0]
    assert live.grown(rows) == ["threads"]
    assert live.grown(live.compared([first, between, first])) == []
