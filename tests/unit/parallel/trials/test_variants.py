"""Variants are found by their names, and refuse layouts that they cannot be."""

import pytest

from rankbook.parallel.mesh import Layout
from rankbook.parallel.trials import LAYOUT_VARIANTS
from rankbook.parallel.trials.variants import find_variant


def test_an_unknown_variant_is_one_sentence():
    with pytest.raises(ValueError, match="is unknown; use all_reduce") as refused:
        find_variant("ddp")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("way", "shared"), [("all_reduce", 1), ("FSDP2", 4), ("HSDP", 2)])
def test_who_shares_a_copy_is_the_variants(way, shared):
    assert find_variant(way).layout(Layout(dp=4, tp=2)).shard == shared


def test_hsdp_needs_pairs():
    with pytest.raises(ValueError, match="HSDP takes 4 replicas or more, not dp=2"):
        find_variant("HSDP").layout(Layout(dp=2))


def test_names_are_said_once():
    assert len(set(LAYOUT_VARIANTS)) == len(LAYOUT_VARIANTS) == 16
