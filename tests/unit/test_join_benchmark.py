"""The benchmark of Join: its command line, its arithmetic, and a block of steps."""

import pytest
import torch.distributed as dist

from benchmarks import join


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--ranks 1", "--ranks 1 has nobody to wait for; use 2 or more"),
        ("--repeats 2", "--repeats 2 gives no median and spread; use 3 or more"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        join.parse(line.split())
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_ratios_are_of_neighbours_in_time():
    ddp, more = [0.001, 0.002, 0.004], [0.002, 0.003, 0.012]
    rows = join.table({
        (64, "DDP"): ddp, (64, "DDP in Join"): more, (64, "leaving Join"): [0.1, 0.2, 0.3],
    })  # fmt: skip
    assert [row["way"] for row in rows] == ["DDP", "DDP in Join", "leaving Join"]
    assert [row["median"] for row in rows] == [2, 3, 200]
    assert rows[1]["times DDP"] == 2 and rows[1]["95%"] == [1.5, 3]
    assert "times DDP" not in rows[0] | rows[2] and rows[0]["parameters"] == 12480


def test_the_bounds_of_a_median():
    assert join.middle([float(n) for n in range(1, 101)]) == (50.5, 41, 60)


def test_a_block_of_steps_in_each_way(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        block = join.block_of(8)
        found = {way: block(way) for way in join.WAYS}
        # A DDP that outlives its group ends gloo's threads while it holds the GIL, for which one
        # of them may be waiting: the process stood still here, within 30 runs of 400.
        del block
    finally:
        dist.destroy_process_group()
    assert {way: list(times) for way, times in found.items()} == {
        "DDP": ["DDP"],
        "DDP in Join": ["DDP in Join", "leaving Join"],
        "has data, lockstep": ["has data, lockstep"],
    }
    assert all(seconds > 0 for times in found.values() for seconds in times.values())
