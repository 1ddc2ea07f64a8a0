"""What torch's flight recorder holds of a rank: its last collectives, those of DDP and FSDP too.

The recorder lies below Python: a collective that C++ issues is in it, with the Python stack that
led to it. With gloo it knows nothing of `send` and `recv`, and an entry is only created or retired.
Source: https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
Does not load torch, but for `recent_collectives`, which is called where torch is.
"""

import importlib
import pickle
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from rankbook.autopsy.dtypes import short_dtype

LAST = 200  # entries that are enough to see where ranks parted


@dataclass(frozen=True)
class Frame:
    """A line of Python on the way to a call; `file` as Python names it, `line` counted from 1."""

    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Entry:
    """One collective of one rank.

    group: the process group's name, the same on all its ranks; "0" is the default group.
    number: its place among the group's collectives, from 1. op: "all_reduce". inputs, outputs:
    a text for each tensor, as in "float32 [4]". done: whether it came to its end. time: when it
    was issued, in seconds since the epoch. frames: the Python stack, innermost first.
    """

    group: str
    number: int
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    done: bool
    time: float
    frames: tuple[Frame, ...] = ()

    @property
    def text(self) -> str:
        """The call as a reader would write it: ``all_reduce(float32 [4])``."""
        return f"{self.op}({', '.join(self.inputs)})"

    def as_dict(self) -> dict:
        """For a message or a file; `Entry.of` reads it."""
        return asdict(self)

    @classmethod
    def of(cls, record: dict) -> "Entry":
        """What `as_dict` gave, also after a way through JSON."""
        parts: dict[str, Any] = {name: tuple(record[name]) for name in ("inputs", "outputs")}
        parts["frames"] = tuple(Frame(**frame) for frame in record["frames"])
        return cls(**{**record, **parts})


def recent_collectives(last: int = LAST, stacks: bool = True) -> list[Entry]:
    """The last collectives of this process, oldest first; empty if torch records none.

    stacks: whether with the frames that issued them; finding their names takes torch most of the
    time, a tenth of a second for a recorder that is full.
    """
    from torch._C import _distributed_c10d

    found: list[Entry] = []
    for name in ("_dump_fr_trace", "_dump_nccl_trace"):  # the second is there where NCCL is
        if dump := getattr(_distributed_c10d, name, None):
            with _without_compiler():
                made = dump(includeStackTraces=stacks)
            # Its JSON has no stacks. This pickle was made by this process, a line ago.
            found += entries(pickle.loads(made), last)
    return sorted(found, key=lambda entry: entry.time)[-last:]


class _NotLoaded(ModuleType):
    """Stands for `torch._inductor`; whoever wants anything of it gets the real one."""

    def __getattr__(self, name: str) -> Any:
        if name == "codecache":
            raise AttributeError(name)
        return getattr(importlib.import_module("torch._inductor"), name)


@contextmanager
def _without_compiler() -> Iterator[None]:
    """For stacks with names, torch asks itself for `_inductor`, whose import takes seconds.

    Source: PythonTraceback::symbolize in
    https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/python/combined_traceback.cpp
    """
    names = vars(sys.modules["torch"])
    stub = None if "_inductor" in names else _NotLoaded("torch._inductor")
    if stub is not None:
        names["_inductor"] = stub
    try:
        yield
    finally:
        if stub is not None and names.get("_inductor") is stub:
            del names["_inductor"]


def entries(dump: dict, last: int = 0) -> list[Entry]:
    """The collectives in a flight recorder's dump, as torch's JSON or its pickle gives it.

    last: how many of them at most; 0: all.
    """
    found = [record for record in dump.get("entries", []) if not record["is_p2p"]]
    found.sort(key=lambda record: record["time_created_ns"])
    return [_entry(record) for record in found[-last:]]


def _entry(record: dict) -> Entry:
    return Entry(
        group=str(record["process_group"][0]),
        number=record["collective_seq_id"],
        op=record["profiling_name"].partition(":")[2],
        inputs=tuple(_tensors(record, "input")),
        outputs=tuple(_tensors(record, "output")),
        done=bool(record["retired"]) or record["state"] == "completed",
        time=record["time_created_ns"] / 1e9,
        frames=tuple(Frame(f["name"], f["filename"], f["line"]) for f in record.get("frames", ())),
    )


def _tensors(record: dict, side: str) -> Iterable[str]:
    """``float32 [4]`` for each tensor of a side; empty shapes are scalars: ``float32 []``."""
    shapes, dtypes = record[f"{side}_sizes"], record[f"{side}_dtypes"]
    for shape, dtype in zip(shapes, dtypes, strict=False):
        yield f"{short_dtype(dtype)} {list(shape)}"
