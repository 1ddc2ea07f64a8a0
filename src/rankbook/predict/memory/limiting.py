"""Out of memory on purpose: for a while, this process gets no more than so many bytes."""

import contextlib
import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from rankbook.predict.memory.hiding import unseen

_MMAP_THRESHOLD = -3  # of glibc's <malloc.h>
_OWN_MAPPING = 2**16  # bytes: a tensor as large as that goes back to the kernel when it dies
_SMALL_HOLE = (
    2**21
)  # bytes: half of them is left to other threads while the heap's holes are looked for


@contextlib.contextmanager
def memory_limit(room: float, device: torch.device | str = "cpu") -> Iterator[None]:
    """Within, this process gets `room` bytes more than it has; what exceeds them raises.

    On a CPU the kernel sees to it (RLIMIT_DATA, Linux 4.7 or newer), so that torch raises a
    RuntimeError of its `DefaultCPUAllocator`; on a GPU torch's own allocator does, which raises
    torch.OutOfMemoryError. The limit is lifted at the end, also when something was raised. From the
    first use on, glibc gives each tensor of 64 KiB or more a mapping of its own: what is freed
    counts no longer, but allocating takes longer. What its heap had free before, in pieces of 2 MiB
    or more, is out of reach within. Raises ValueError for a negative `room`, OSError where nothing
    enforces a limit.
    """
    if room < 0:
        raise ValueError(f"a limit of {room} bytes is negative; use 0 or more")
    on_gpu = torch.device(device).type == "cuda"
    with unseen(), _of_cuda(room, torch.device(device)) if on_gpu else _of_process(room):
        yield


@contextlib.contextmanager
def _of_process(room: float) -> Iterator[None]:
    if sys.platform != "linux":
        raise OSError("a limit on a process's memory needs Linux; run this in a container, say")
    import resource  # Windows has none

    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)
    libc.malloc_trim(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)

    def allow(more: float) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (max(0, data_bytes() + int(more)), hard))

    stopped: list[int] = []
    try:
        allow(_SMALL_HOLE / 2)  # so that what is as large as a hole can come only from one
        stopped += _large_holes()
        allow(room - heap_free())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        for hole in stopped:
            libc.free(ctypes.c_void_p(hole))


def _large_holes() -> Iterator[int]:
    """Take what is free in the heap: malloc would give it out without asking the kernel."""
    take = ctypes.CDLL(None).malloc
    take.argtypes, take.restype = [ctypes.c_size_t], ctypes.c_void_p
    size = 2**40
    while size >= _SMALL_HOLE:
        if hole := take(size):
            yield hole
        else:
            size //= 2


@contextlib.contextmanager
def _of_cuda(room: float, device: torch.device) -> Iterator[None]:
    torch.cuda.empty_cache()  # what is cached would be given out without asking
    before = torch.cuda.get_per_process_memory_fraction(device)
    total = torch.cuda.get_device_properties(device).total_memory
    allowed = torch.cuda.memory_reserved(device) + room
    torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(before, device)


def data_bytes() -> int:
    """Bytes of this process that RLIMIT_DATA counts: private and writable, used or not."""
    found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if not found:
        raise OSError("/proc/self/status does not say VmData; a limit needs Linux 4.7 or newer")
    return int(found[1]) * 1024


def heap_free() -> int:
    """Bytes that glibc's malloc has from the kernel and nobody uses; 0 where it cannot tell."""
    libc = ctypes.CDLL(None)
    for name, kind in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_int)):
        if hasattr(libc, name):  # before glibc 2.33 there is only the second
            tell = getattr(libc, name)
            tell.restype = _MallInfo[kind]
            return max(0, tell().fordblks)
    return 0


def _struct(kind: type) -> type[ctypes.Structure]:
    """`struct mallinfo` of <malloc.h>, with fields of this kind."""
    names = (
        "arena", "ordblks", "smblks", "hblks", "hblkhd",
        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )  # fmt: skip
    return type("mallinfo", (ctypes.Structure,), {"_fields_": [(name, kind) for name in names]})


_MallInfo = {kind: _struct(kind) for kind in (ctypes.c_size_t, ctypes.c_int)}
