"""What all ranks know alike: a value, an answer, an error. Without a process group: a world of one.

Whatever goes wrong on one rank is raised on all: a rank that leaves alone strands the others in
their next collective. That holds for every Exception. KeyboardInterrupt and SystemExit are not
passed on: they end a rank at once, and the others' collective fails when its process is gone.
"""

import ctypes
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from rankbook.core.placement import group_device

T = TypeVar("T")
Packed = tuple[bytes, str]  # an exception: pickled, and in words for where that cannot be read


def rank_and_world(group: dist.ProcessGroup | None = None) -> tuple[int, int]:
    """This rank, and how many there are in `group`: 0 and 1 where there is no process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(group), dist.get_world_size(group)
    return 0, 1


def gather(value: T, group: dist.ProcessGroup | None = None) -> list[T]:
    """`value` of every rank, by rank; all ranks of `group` call, and get the same.

    Raises, on all of them, what pickle raises where it cannot take one rank's value.
    """
    ranks = rank_and_world(group)[1]
    if ranks == 1:
        return [value]
    mine, told = _attempt(lambda: pickle.dumps(value))
    everyone: list[Any] = [
        pickle.loads(sent) for sent in _exchange(pickle.dumps((mine, told)), group)
    ]
    _raise_together([error for _, error in everyone])
    return [pickle.loads(packed) for packed, _ in everyone]


def agree(check: Callable[[], T], group: dist.ProcessGroup | None = None) -> T:
    """`check()` of this rank; where it raises on some, all ranks of `group` raise one sentence.

    check: nothing that waits for other ranks. The error is of the kind of the first rank's that
    has one (RuntimeError, which names that kind, where it takes more than a sentence), and says
    its first line, and on which ranks it was, unless on all. Alone, a rank raises its own.
    """
    if rank_and_world(group)[1] == 1:
        return check()
    caught: Exception | None = None
    result: Any = None
    try:
        result = check()
    except Exception as error:
        caught = error
    told = _pack(caught) if caught is not None else None
    _raise_together(gather(told, group), caught)
    return result


def broadcast_from_rank0(make: Callable[[], T], group: dist.ProcessGroup | None = None) -> T:
    """What `make()` gives on rank 0 of `group`, on all of its ranks, which wait for it.

    Raises what it raises, on all of them, and what pickle raises where it cannot take the result.
    """
    rank, ranks = rank_and_world(group)
    if ranks == 1:
        return make()
    made: Any = None
    caught: Exception | None = None
    box: tuple[bytes | None, Packed | None] = (None, None)
    if rank == 0:
        try:
            made = make()
            box = (pickle.dumps(made), None)
        except Exception as error:
            caught = error
            box = (None, _pack(error))
    sent = _spread(pickle.dumps(box), group)
    if caught is not None:
        raise caught
    if rank == 0:
        return made
    packed, told = pickle.loads(sent)
    if told is not None:
        raise _unpack(told)
    return pickle.loads(packed)


def rank0_first(make: Callable[[], T]) -> T:
    """`make()` of every rank: of rank 0 before the others, which find what it has kept.

    For what is downloaded or counted once and read from a file from then on. Raises, on all ranks,
    what it raises on one of them.
    """
    made: list[T] = []
    broadcast_from_rank0(lambda: made.append(make()))
    return agree(lambda: made[0] if made else make())


# torch's own collectives of objects need numpy (2.13), which a machine with torch may not have


def _exchange(mine: bytes, group: dist.ProcessGroup | None) -> list[bytes]:
    """What each rank of `group` gives, by rank."""
    device, ranks = group_device(group), rank_and_world(group)[1]
    size = torch.tensor([len(mine)], device=device)
    sizes = [torch.empty_like(size) for _ in range(ranks)]
    dist.all_gather(sizes, size, group=group)
    counts = [int(each) for each in sizes]
    padded = _tensor(mine.ljust(max(counts), b"\0")).to(device)
    parts = [torch.empty_like(padded) for _ in range(ranks)]
    dist.all_gather(parts, padded, group=group)
    return [_bytes(part)[:count] for part, count in zip(parts, counts, strict=True)]


def _spread(mine: bytes, group: dist.ProcessGroup | None) -> bytes:
    """What rank 0 of `group` gives."""
    device = group_device(group)
    size = torch.tensor([len(mine)], device=device)
    dist.broadcast(size, group=group, group_src=0)
    count = int(size)
    sent = _tensor(mine[:count].ljust(count, b"\0")).to(device)
    dist.broadcast(sent, group=group, group_src=0)
    return _bytes(sent)


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _bytes(tensor: torch.Tensor) -> bytes:
    tensor = tensor.cpu()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel())


def _attempt(work: Callable[[], bytes]) -> tuple[bytes | None, Packed | None]:
    try:
        return work(), None
    except Exception as error:
        return None, _pack(error)


def _raise_together(errors: list[Packed | None], mine: Exception | None = None) -> None:
    """Raise the first of the ranks' errors, if there is one, with the ranks that have one.

    mine: this rank's own, which becomes the cause.
    """
    ranks = [rank for rank, told in enumerate(errors) if told is not None]
    if not ranks:
        return
    first = errors[ranks[0]]
    assert first is not None
    where = "" if len(ranks) == len(errors) else f" (rank {', '.join(map(str, ranks))})"
    raise _reworded(_unpack(first), where) from mine


def _reworded(error: Exception, more: str) -> Exception:
    """An error of the same kind that says the first line of `error`, and `more`."""
    sentence = next(iter(str(error).strip().splitlines()), "no message") + more
    try:
        made = type(error)(sentence)
        if str(made) == sentence:
            return made
    except Exception:
        pass  # it takes other arguments
    return RuntimeError(f"{type(error).__name__}: {sentence}")


def _pack(error: Exception) -> Packed:
    """`error` for other ranks; as a RuntimeError, which says what it was, if it cannot travel."""
    words = f"{type(error).__name__}: {error}"
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some are made with more than they keep
    except Exception:
        packed = pickle.dumps(RuntimeError(words))
    return packed, words


def _unpack(told: Packed) -> Exception:
    packed, words = told
    try:
        return pickle.loads(packed)
    except Exception:  # its class is not known here
        return RuntimeError(words)
