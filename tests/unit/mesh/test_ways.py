"""Ways are found by their names, and refuse layouts that they cannot be."""

import pytest

from rankbook.mesh import LAYOUT_WAYS, Layout
from rankbook.mesh.ways import find_way


def test_an_unknown_way_is_one_sentence():
    with pytest.raises(ValueError, match="is unknown; use all_reduce") as refused:
        find_way("ddp")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("way", "shared"), [("all_reduce", 1), ("FSDP2", 4), ("HSDP", 2)])
def test_who_shares_a_copy_is_the_ways(way, shared):
    assert find_way(way).layout(Layout(dp=4, tp=2)).shard == shared


def test_hsdp_needs_pairs():
    with pytest.raises(ValueError, match="HSDP takes 4 replicas or more, not dp=2"):
        find_way("HSDP").layout(Layout(dp=2))


def test_names_are_said_once():
    assert len(set(LAYOUT_WAYS)) == len(LAYOUT_WAYS) == 16
