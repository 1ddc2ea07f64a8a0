"""The model of a caching allocator: its rules, and the fragmentation that follows."""

import pytest

from rankbook.predict.memory.caching import CachingAllocator, OutOfMemory

MIB = 2**20


def test_sizes_are_rounded_to_512_bytes_and_small_ones_share_a_segment_of_2_mib():
    gpu = CachingAllocator(100 * MIB)
    first, second = gpu.allocate(1), gpu.allocate(513)
    assert (first.size, second.size) == (512, 1024)
    assert (gpu.allocated, gpu.reserved) == (1536, 2 * MIB)


@pytest.mark.parametrize("asked, segment", [(2, 20), (9, 20), (10, 10), (11, 12), (33, 34)])
def test_larger_ones_get_20_mib_or_whole_pages_of_2(asked, segment):
    gpu = CachingAllocator(100 * MIB)
    gpu.allocate(asked * MIB)
    assert gpu.reserved == segment * MIB


def test_what_is_freed_stays_reserved_and_is_given_again():
    gpu = CachingAllocator(100 * MIB)
    gpu.free(gpu.allocate(30 * MIB))
    assert (gpu.allocated, gpu.reserved, gpu.largest_free) == (0, 30 * MIB, 30 * MIB)
    gpu.allocate(30 * MIB)
    assert gpu.reserved == 30 * MIB


def test_free_neighbours_join_within_a_segment_and_never_across_two():
    gpu = CachingAllocator(100 * MIB)
    parts = [gpu.allocate(6 * MIB) for _ in range(3)]  # of one segment of 20
    other = gpu.allocate(20 * MIB)
    for part in (parts[0], parts[2], parts[1], other):
        gpu.free(part)
    assert [block.size for s in gpu.segments for block in s.blocks] == [20 * MIB, 20 * MIB]


def test_the_smallest_block_that_fits_is_taken_and_what_is_over_stays_free():
    gpu = CachingAllocator(200 * MIB)
    large, middle = gpu.allocate(60 * MIB), gpu.allocate(40 * MIB)
    gpu.free(large)
    gpu.free(middle)
    gpu.allocate(30 * MIB)
    assert gpu.largest_free == 60 * MIB
    assert gpu.reserved == 100 * MIB and gpu.allocated == 30 * MIB


def test_a_segment_that_nobody_uses_goes_back_when_the_device_runs_short():
    gpu = CachingAllocator(100 * MIB)
    gpu.free(gpu.allocate(60 * MIB))
    gpu.allocate(80 * MIB)
    assert gpu.reserved == 80 * MIB


def held_open(expandable: bool) -> CachingAllocator:
    """A device of 100 MiB on which a tensor of 12 sits in each of two large segments."""
    gpu = CachingAllocator(100 * MIB, expandable)
    large = [gpu.allocate(48 * MIB) for _ in range(2)]
    gpu.free(large[0])
    gpu.allocate(12 * MIB)
    gpu.allocate(30 * MIB)
    gpu.free(large[1])
    gpu.allocate(12 * MIB)
    return gpu


def test_enough_is_free_and_none_of_it_is_large_enough():
    gpu = held_open(expandable=False)
    free = gpu.capacity - gpu.allocated
    assert free == 46 * MIB and gpu.largest_free < 40 * MIB
    told = r"tried to allocate 40 MiB.*largest block of them 36 MiB"
    with pytest.raises(OutOfMemory, match=told):
        gpu.allocate(40 * MIB)


def test_with_expandable_segments_the_same_request_fits():
    gpu = held_open(expandable=True)
    gpu.allocate(40 * MIB)
    assert gpu.reserved <= gpu.capacity


def test_expandable_segments_do_not_make_the_device_larger():
    gpu = held_open(expandable=True)
    with pytest.raises(OutOfMemory):
        gpu.allocate(48 * MIB)


def test_nothing_cannot_be_asked_for():
    with pytest.raises(ValueError, match="ask for 1 or more"):
        CachingAllocator(MIB).allocate(0)
