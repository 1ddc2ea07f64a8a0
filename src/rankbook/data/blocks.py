"""A text file cut at bytes into blocks: where each begins, and which lines begin in it."""

import os
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

SMALLEST = 4096  # bytes: blocks are not made smaller than this just to have more of them
COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7z": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
BOM = b"\xef\xbb\xbf"  # some editors begin UTF-8 files with it; it is no part of the first line


def blocks_per_reader(size: int, readers: int, block_size: int, window: int) -> int:
    """How many blocks each of `readers` gets of a file of `size` bytes: the same number each.

    So many that none is longer than `block_size`. A small file is cut into a `window` of blocks
    for each reader, so that shuffling has something to move, but not below `SMALLEST` bytes.
    """
    needed = -(-size // (readers * block_size))
    return max(1, needed, min(window, size // (readers * SMALLEST)))


def bounds(block: int, blocks: int, size: int) -> tuple[int, int]:
    """The first byte of `block` of `blocks`, of a file of `size` bytes, and the first behind it."""
    return size * block // blocks, size * (block + 1) // blocks


def lines_from(file: BinaryIO, start: int, end: int) -> list[tuple[int, bytes]]:
    """The lines of `file` that begin in bytes `start` to `end` - 1: first byte and text of each.

    A line belongs to the block it begins in, however far it reaches: so each one has exactly one
    block. Of a line from an earlier block no more is read than this block's own bytes.
    """
    if start >= end:
        return []
    file.seek(max(0, start - 1))
    if start > 0:  # a line begins at `start` if the byte before it ends one: look from there
        before = file.readline(end - start + 1)
        if not before.endswith(b"\n"):
            return []
        start += len(before) - 1
    text = file.read(end - start)
    if text and not text.endswith(b"\n"):
        text += file.readline()
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    starts = accumulate((len(line) + 1 for line in lines), initial=start)
    found = list(zip(starts, lines, strict=False))  # one more start: that of the next line
    if start == 0 and text.startswith(BOM):
        found[0] = (len(BOM), lines[0].removeprefix(BOM))
    return found


def check(path: Path) -> os.stat_result:
    """Return what the system says of the file at `path`; raise if its lines cannot be read.

    One sentence each: FileNotFoundError, IsADirectoryError, PermissionError, and ValueError for
    what is no regular file or is compressed.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; give the path of one text file")
        if path.exists() and not path.is_file():
            raise ValueError(
                f"{path} is no regular file, and only those can be read from the middle"
            )
        with path.open("rb") as file:
            magic = file.read(4)
            status = os.fstat(file.fileno())
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path} on this machine") from None
    except PermissionError:
        raise PermissionError(f"{path} may not be read by this user") from None
    for start, name in COMPRESSED.items():
        if magic.startswith(start):
            raise ValueError(
                f"{path} is compressed ({name}); unpack it, so that lines can be found"
            )
    return status
