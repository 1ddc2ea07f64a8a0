"""What ranks agree on, and how one rank's trouble becomes that of all; for test_agreement.py."""

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.core.agreement import agree, broadcast_from_rank0, gather, rank0_first
from tests.distributed.blocked import blocked
from tests.waiting import until


class TwoWordsError(Exception):
    """Pickle can take it, and cannot make it again."""

    def __init__(self, first: str, second: str):
        super().__init__(f"{first} {second}")


def told(work: Callable[[], object]) -> str:
    """How `work` ends: what it raises, of which kind; or what it gives."""
    try:
        return f"{work()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def fail(error: Exception) -> None:
    raise error


def local_error() -> Exception:
    """Of a class that no other process can find by its name."""

    class LocalError(ValueError):
        pass

    return LocalError("of rank 0 alone")


ERRORS: dict[str, Callable[[], Exception]] = {
    "value": lambda: ValueError("wrong"),
    "runtime": lambda: RuntimeError("stranded"),
    "key": lambda: KeyError("name"),
    "file": lambda: FileNotFoundError(2, "no such file", "x"),
    "import": lambda: ImportError("no torchdata"),
    "two words": lambda: TwoWordsError("two", "words"),
    "local": local_error,
    "lines": lambda: OSError("first line\nsecond line"),
}


def broadcasts() -> dict[str, str]:
    """What all ranks hear when rank 0 gives something, or raises."""
    rank = dist.get_rank()
    found = {"made": told(lambda: broadcast_from_rank0(lambda: f"by rank {rank}"))}
    for name, error in ERRORS.items():
        found[name] = told(lambda error=error: broadcast_from_rank0(lambda: fail(error())))
    found["unreadable"] = told(lambda: broadcast_from_rank0(lambda: lambda: 0))
    group = dist.new_group([1, 2])  # whose rank 0 is rank 1 of all
    if rank:
        found["group"] = told(lambda: broadcast_from_rank0(lambda: f"by rank {rank}", group))
        found["gathered"] = f"{gather(rank, group)}"
    return found


def agreements() -> dict[str, str]:
    """What all ranks hear when some of them raise."""
    rank = dist.get_rank()
    found = {"fine": told(lambda: agree(lambda: "fine"))}
    for name, error in ERRORS.items():
        found[name] = told(lambda error=error: agree(lambda: rank and fail(error())))
    found["all"] = told(lambda: agree(lambda: fail(ValueError("wrong"))))
    found["gather"] = f"{gather(f'rank {rank}')}"
    found["unreadable"] = told(lambda: gather((lambda: 0) if rank == 1 else 0)).splitlines()[0]
    return found


def one_after_the_other(folder: str) -> dict:
    """Rank 0 comes first; then the others, at once; the error of one is that of all."""
    rank, path = dist.get_rank(), Path(folder) / "made"
    others = [pid for pid in gather(os.getpid()) if pid != os.getpid()]

    def make() -> str:
        if rank == 0:
            until(lambda: all(map(blocked, others)))  # they wait, or have looked and failed
            path.write_text("by rank 0")
        return path.read_text()  # FileNotFoundError where rank 0 is not waited for

    def fail_on_rank_0() -> None:
        assert rank == 0, "rank 0 has failed: nobody comes after it"
        raise RuntimeError("no download")

    def fail_on_rank_1() -> None:
        if rank == 1:
            raise OSError("no folder")

    found = {"made": told(lambda: rank0_first(make))}
    found["first"] = told(lambda: rank0_first(fail_on_rank_0))
    return found | {"other": told(lambda: rank0_first(fail_on_rank_1))}


def leave_without_a_word() -> str:
    """Rank 0 is interrupted while all wait for it: it ends, and the others hear that it is gone."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    try:
        broadcast_from_rank0(interrupted)
    except KeyboardInterrupt:
        os._exit(3)
    except RuntimeError:
        os._exit(0)
    return "nothing was raised"


def without_numpy() -> list:
    """What ranks agree on where torch finds no numpy."""
    try:
        torch.zeros(1).numpy()
    except RuntimeError:
        rank = dist.get_rank()
        return [
            gather({"rank": rank, "more": "x" * 10**rank}),
            broadcast_from_rank0(lambda: ("by", rank)),
            told(lambda: agree(lambda: rank and fail(ValueError("wrong")))),
        ]
    raise AssertionError("there is a numpy: nothing is shown")
