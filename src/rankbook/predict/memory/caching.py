"""A small model of torch's caching allocator for GPUs: enough bytes are free, and none fit.

It follows the rules of c10/cuda/CUDACachingAllocator.cpp that fragmentation comes from: sizes are
rounded, memory is taken from the device in segments and kept, a segment is cut into blocks, and
neighbours that are free become one block, within their segment only. Left out are streams, private
pools and the settings that refine the rules. Nothing here touches a GPU.
"""

from dataclasses import dataclass, field

MIB = 2**20
SMALL = MIB  # up to here, requests share segments of 2 MiB; larger ones have segments of their own
PAGE = 2 * MIB  # what an expandable segment grows by


@dataclass(eq=False)
class Block:
    """Bytes from `start` of a segment; `asked` is what was asked for, 0 in a free block."""

    start: int
    size: int
    asked: int = 0


@dataclass(eq=False)
class Segment:
    """What the device gave at once, cut into `blocks` in the order of their addresses."""

    small: bool
    blocks: list[Block] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(block.size for block in self.blocks)


class OutOfMemory(MemoryError):
    """Raised where a request does not fit, with the numbers that torch's message has."""


class CachingAllocator:
    """Gives and takes back bytes of a device that has `capacity` of them.

    expandable: as with `expandable_segments:True`, one segment of each kind grows, and pages in it
    that nobody uses go back to the device when it runs short.
    """

    def __init__(self, capacity: int, expandable: bool = False):
        self.capacity, self.expandable = capacity, expandable
        self.segments: list[Segment] = []

    @property
    def reserved(self) -> int:
        """Bytes taken from the device."""
        return sum(segment.size for segment in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of blocks in use."""
        return sum(b.size for s in self.segments for b in s.blocks if b.asked)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest block that nobody uses; 0 without one."""
        return max((b.size for s in self.segments for b in s.blocks if not b.asked), default=0)

    def allocate(self, asked: int) -> Block:
        """A block for `asked` bytes, at least one. Raises OutOfMemory."""
        if asked < 1:
            raise ValueError(f"{asked} bytes were asked for; ask for 1 or more")
        size = -(-asked // 512) * 512
        small = size <= SMALL
        found = self._fitting(size, small) or self._grown(size, small)
        if found is None:
            self.release()
            found = self._fitting(size, small) or self._grown(size, small)
        if found is None:
            raise OutOfMemory(self._message(asked))
        segment, block = found
        self._cut(segment, block, size)
        block.asked = asked
        return block

    def free(self, block: Block) -> None:
        """Take `block` back; it joins neighbours that are free. The device gets nothing back."""
        segment = next(s for s in self.segments if any(b is block for b in s.blocks))
        block.asked = 0
        joined: list[Block] = []
        for each in segment.blocks:
            if joined and not each.asked and not joined[-1].asked and _touch(joined[-1], each):
                joined[-1].size += each.size
            else:
                joined.append(each)
        segment.blocks = joined

    def release(self) -> None:
        """Give back what nobody uses: whole segments, or pages of expandable ones (empty_cache)."""
        for segment in self.segments:
            if self.expandable:
                segment.blocks = [b for block in segment.blocks for b in _without_pages(block)]
            elif not any(block.asked for block in segment.blocks):
                segment.blocks = []
        self.segments = [segment for segment in self.segments if segment.blocks]

    def _fitting(self, size: int, small: bool) -> tuple[Segment, Block] | None:
        """The smallest free block that is large enough."""
        free = [
            (block.size, number, segment, block)
            for number, segment in enumerate(self.segments)
            if segment.small == small
            for block in segment.blocks
            if not block.asked and block.size >= size
        ]
        return min(free, key=lambda found: found[:2])[2:] if free else None

    def _grown(self, size: int, small: bool) -> tuple[Segment, Block] | None:
        """A new segment, or an expandable one that grew at its end; None if the device is full."""
        segment = next((s for s in self.segments if s.small == small), None)
        if not self.expandable or segment is None:
            new, segment, start = _segment_size(size, self.expandable), Segment(small), 0
        else:
            last = segment.blocks[-1]
            new, start = size - (0 if last.asked else last.size), last.start + last.size
            new = -(-new // PAGE) * PAGE
        if self.reserved + new > self.capacity:
            return None
        if segment not in self.segments:
            self.segments.append(segment)
        segment.blocks.append(Block(start, new))
        self.free(segment.blocks[-1])  # joins the free block before it
        return segment, segment.blocks[-1]

    def _cut(self, segment: Segment, block: Block, size: int) -> None:
        """Leave what is over as a block of its own, if it is worth one."""
        rest = block.size - size
        if rest >= 512 if segment.small else rest > SMALL:
            block.size = size
            at = next(i for i, each in enumerate(segment.blocks) if each is block)
            segment.blocks.insert(at + 1, Block(block.start + size, rest))

    def _message(self, asked: int) -> str:
        """In torch's order: asked, capacity, free on the device, allocated, reserved."""
        mib = [f"{n / MIB:.0f} MiB" for n in (
            asked, self.capacity, self.capacity - self.reserved, self.allocated,
            self.reserved - self.allocated, self.largest_free)]  # fmt: skip
        return (
            "tried to allocate {}; of {} on the device {} are free; {} are allocated, and {} are "
            "reserved but unallocated, the largest block of them {}".format(*mib)
        )


def _segment_size(size: int, expandable: bool) -> int:
    """What is taken from the device for a request of `size` bytes."""
    if expandable:
        return -(-size // PAGE) * PAGE
    if size <= SMALL:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // PAGE) * PAGE


def _touch(before: Block, after: Block) -> bool:
    return before.start + before.size == after.start


def _without_pages(block: Block) -> list[Block]:
    """A free block without its whole pages: the pieces before the first and behind the last."""
    end = block.start + block.size
    first, last = -(-block.start // PAGE) * PAGE, end // PAGE * PAGE
    if block.asked or first >= last:
        return [block]
    pieces = (Block(block.start, first - block.start), Block(last, end - last))
    return [piece for piece in pieces if piece.size]
