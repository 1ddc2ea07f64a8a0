"""A limit on this process's memory holds within, and is gone after."""

import resource
import subprocess
import sys

import pytest
import torch

from rankbook.predict.memory.limiting import data_bytes, heap_free, memory_limit

MIB = 2**20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no such limit")


def bytes_of(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


def test_what_exceeds_the_room_raises_in_the_words_of_torchs_allocator():
    with (
        memory_limit(32 * MIB),
        pytest.raises(RuntimeError, match=f"DefaultCPUAllocator.*{64 * MIB} bytes"),
    ):
        bytes_of(64 * MIB)


def test_what_fits_is_given_and_room_that_was_freed_counts_again():
    with memory_limit(1024 * MIB):  # room besides for what other tests' threads still take
        for _ in range(3):
            bytes_of(512 * MIB)


def test_it_is_lifted_also_after_a_failure():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(RuntimeError), memory_limit(MIB):
        bytes_of(256 * MIB)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    bytes_of(64 * MIB)


def test_the_kernels_count_follows_a_tensor_nearly_to_the_byte():
    with memory_limit(100 * MIB):
        before = data_bytes()
        held = bytes_of(10 * MIB)
        assert 10 * MIB <= data_bytes() - before <= 11 * MIB
        del held
        assert data_bytes() - before < MIB
    assert heap_free() >= 0


def test_what_the_heap_has_free_is_no_room(tmp_path):
    """Malloc would give it out without asking the kernel, which knows of no limit then."""
    program = tmp_path / "holes.py"
    program.write_text(_HOLES)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "given", "lifted"]


# Three blocks from the heap become one hole when they are freed; the fourth keeps it from the top.
_HOLES = """
import ctypes
import torch
from rankbook.predict.memory.limiting import heap_free, memory_limit

MIB = 2**20
libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.mallopt(-3, 32 * MIB)  # M_MMAP_THRESHOLD: smaller blocks come from the heap
blocks = [libc.malloc(size * MIB) for size in (30, 30, 30, 1)]
for block in blocks[:3]:
    libc.free(ctypes.c_void_p(block))
assert heap_free() > 90 * MIB, heap_free()
with memory_limit(32 * MIB):
    try:
        torch.empty(60 * MIB, dtype=torch.uint8)
    except RuntimeError as error:
        print("refused" if "DefaultCPUAllocator" in str(error) else error)
    torch.empty(20 * MIB, dtype=torch.uint8)
    print("given")
torch.empty(60 * MIB, dtype=torch.uint8)
assert heap_free() > 90 * MIB, heap_free()
print("lifted")
"""


def test_a_negative_room_is_refused():
    with pytest.raises(ValueError, match="-1 bytes is negative"), memory_limit(-1):
        pass


def test_other_systems_are_told_what_it_needs(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OSError, match="needs Linux"), memory_limit(MIB):
        pass


def test_on_a_gpu_torchs_own_allocator_is_told_and_told_back(monkeypatch):
    """What it is told; that it obeys is torch's to test."""
    told = []
    for name, answer in {
        "empty_cache": None,
        "get_per_process_memory_fraction": 1.0,
        "get_device_properties": type("Card", (), {"total_memory": 1000 * MIB}),
        "memory_reserved": 100 * MIB,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer, raising=False)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, _: told.append(share)
    )
    with pytest.raises(ZeroDivisionError), memory_limit(400 * MIB, "cuda"):
        1 / 0  # noqa: B018
    assert told == [0.5, 1.0]
