"""Do all ranks make the same call? Compared before the call, without waiting for each other.

Every rank writes its collective calls, one line each, to a file in the private directory, and reads
the others' lines. Whoever comes second to a call sees that it differs, and raises instead of
joining in. Without this, what happens is up to the backend: gloo hangs, aborts the process, or
returns garbage without a word (tests/live/test_ranks_mismatch.py shows all three).

torch has such a check, TORCH_DISTRIBUTED_DEBUG=DETAIL. With torch 2.13 it crashes DDP on gloo, and
it makes every collective wait for all ranks, which hides the very overlap that chapters measure.
"""

import functools
import inspect

import torch
import torch.distributed as dist

# The arguments that all ranks must agree on. A list is every rank's own business (only the
# destination of a gather has one), and so are the shapes of an all_to_all.
COLLECTIVES = {
    "all_reduce": ("tensor", "op"),
    "broadcast": ("tensor", "src"),
    "reduce": ("tensor", "dst", "op"),
    "all_gather": ("tensor",),
    "all_gather_into_tensor": ("input_tensor",),
    "all_gather_single": ("input_tensor",),  # its name from torch 2.13 on
    "reduce_scatter": ("output", "op"),
    "reduce_scatter_tensor": ("output", "op"),
    "reduce_scatter_single": ("output", "op"),  # its name from torch 2.13 on
    "gather": ("tensor", "dst"),
    "scatter": ("tensor", "src"),
    "all_to_all": (),
    "all_to_all_single": (),
    "barrier": (),
}
OPERATIONS = (dist.ReduceOp, dist.ReduceOp.RedOpType)


class CollectiveMismatch(RuntimeError):
    """Two ranks made different calls where the same one was due."""


class CallBoard:
    """Where ranks note their collective calls: one file a rank in `directory`."""

    def __init__(self, directory: str, rank: int, world_size: int):
        self._rank = rank
        self._files = {r: open(f"{directory}/calls{r}", "a+b", 0) for r in range(world_size)}  # noqa: SIM115, PTH123
        self._rest = dict.fromkeys(self._files, b"")
        self._count: dict[str, int] = {}
        self._others: dict[tuple[str, int], dict[int, str]] = {}
        for r, file in self._files.items():
            file.seek(0 if r != rank else file.seek(0, 2))

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()

    def note(self, group: str, text: str) -> None:
        """Note a call of this rank in `group`; raises CollectiveMismatch if another differs."""
        number = self._count[group] = self._count.get(group, -1) + 1
        self._files[self._rank].write(f"{group}\t{number}\t{text}\n".encode())
        self._read_others()
        for rank, other in self._others.pop((group, number), {}).items():
            if other != text:
                raise CollectiveMismatch(
                    f"rank {self._rank} called {text} where rank {rank} called {other}"
                )

    def _read_others(self) -> None:
        for rank, file in self._files.items():
            if rank == self._rank:
                continue
            *lines, self._rest[rank] = (self._rest[rank] + file.read()).split(b"\n")
            for line in lines:
                group, number, text = line.decode().split("\t")
                if int(number) > self._count.get(group, -1) - 1:
                    self._others.setdefault((group, int(number)), {})[rank] = text


def install(board) -> None:
    """Let this process's collectives be noted on the board that `board()` gives, if any."""
    for name, arguments in COLLECTIVES.items():
        function = getattr(dist, name, None)
        if function and not hasattr(function, "__wrapped_by_rankbook__"):
            wrapped = _checked(function, name, arguments, board)
            setattr(dist, name, wrapped)
            setattr(dist.distributed_c10d, name, wrapped)


def _checked(function, name: str, arguments: tuple, board):
    # By hand: `inspect.Signature.bind` would take as long as all the rest.
    places = {p: i for i, p in enumerate(inspect.signature(function).parameters)}

    @functools.wraps(function)
    def checked(*args, **kwargs):
        __tracebackhide__ = True  # IPython leaves this frame out
        here = board()
        if here is not None:

            def value(argument: str):
                place = places[argument]
                return args[place] if place < len(args) else kwargs.get(argument)

            group = value("group") or dist.group.WORLD
            text = describe(name, {a: value(a) for a in arguments})
            if isinstance(group, dist.ProcessGroup):
                here.note(group.group_name, text)
        return function(*args, **kwargs)

    checked.__dict__["__wrapped_by_rankbook__"] = True
    return checked


def describe(name: str, arguments: dict) -> str:
    """A call as a reader would write it: ``broadcast(float32 [4], src=0)``."""
    parts = [shown for a, v in arguments.items() if (shown := _argument(a, v))]
    return f"{name}({', '.join(parts)})"


def _argument(name: str, value) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value.dtype, value.shape)
    if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
        return f"{len(value)} x {_argument(name, value[0])}"
    if name in ("src", "dst") and value is not None:
        return f"{name}={value}"
    if name == "op" and isinstance(value, OPERATIONS) and value != dist.ReduceOp.SUM:
        operation = getattr(value, "name", str(value)).rpartition(".")[2]
        return f"op={operation}"
    return ""


@functools.lru_cache
def _tensor(dtype: torch.dtype, shape: torch.Size) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
