"""Page 64 shows these failures and relies on these equalities; if one goes, the page changes."""

import re
import sys

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.memory_chapter_ranks import MIB, SETUPS, equal, fragmented, limited

OUT_OF_MEMORY = re.compile(
    r"you tried to allocate \d+ bytes. Error code 12 \(Cannot allocate memory\)"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no such limit")


@linux
def test_the_first_step_fits_and_the_second_does_not_until_layers_are_computed_anew(tmp_path):
    rooms = [20, 49, 57, 68, *range(74, 98, 4), 106]  # libraries take a few MiB here, more there
    ((*found, cured),) = run_ranks(limited, tmp_path, 1, rooms)
    for done, told in found[:4]:
        assert done == 0 and "DefaultCPUAllocator: can't allocate memory" in told
    assert found[-1] == (2, "")
    between = [told for done, told in found if done == 1]  # Adam's state is made at its end
    assert len(between) >= 2
    assert all(OUT_OF_MEMORY.search(told) for told in between)
    assert cured == (2, "")


@linux
def test_more_than_enough_is_free_and_four_mebibytes_do_not_fit(tmp_path):
    (found,) = run_ranks(fragmented, tmp_path, 1)
    assert found["free"] > 8 * MIB and found["kept"] == 150 and found["fitted"]
    assert f"you tried to allocate {4 * MIB} bytes" in found["told"]


def test_each_cure_computes_what_one_process_computes_and_a_missing_average_is_seen(tmp_path):
    for distances in run_ranks(equal, tmp_path, 2):
        for name in SETUPS:
            assert max(distances[name]) < 8 * 2.0**-24, name
        assert max(distances["not averaged"]) > 0.01
