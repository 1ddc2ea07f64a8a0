"""What one step asks of a device: every operation, its arithmetic, and the bytes it moves.

An account knows nothing of time. A `rankbook.speed.Machine` turns it into seconds: each call
takes as long as its arithmetic, its bytes, or its launch, whichever takes longest. That is the
roofline model, with a launch added. Source: https://doi.org/10.1145/1498765.1498785
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import optimizer
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankbook.speed.machine import Machine

# FLOP an element of what an operation reads or writes, whichever is more; one where it is not
# named. They only place an operation on the roofline: its bytes take longer.
PER_ELEMENT = {
    "_softmax": 5, "_softmax_backward_data": 4, "native_layer_norm": 7,
    "native_layer_norm_backward": 11, "gelu": 8, "gelu_backward": 14, "_fused_adam_": 3,
}  # fmt: skip
COPIES = {"clone", "copy_", "_to_copy", "fill_", "zero_", "cat", "embedding", "arange", "full",
          "zeros_like", "new_zeros", "zeros", "ones_like", "constant_pad_nd"}  # fmt: skip
MOVES_NOTHING = ("empty", "new_empty", "_unsafe_view", "_local_scalar", "is_", "_nested")
KINDS = {
    "matmul": ("mm", "addmm", "bmm", "baddbmm"),
    "attention kernel": ("_scaled_dot", "_flash_attention", "_efficient_attention"),
    "softmax": ("_softmax", "_log_softmax"),
    "layer norm": ("native_layer_norm",),
    "gelu": ("gelu",),
    "dropout": ("native_dropout", "bernoulli"),
    "embedding": ("embedding",),
    "copy": ("clone", "copy_", "_to_copy", "cat"),
}
WORDS = {torch.float32: "float32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Op:
    """An operation, called `calls` times alike; `flop` and `bytes` are those of one call.

    kind: "matmul", "softmax", "Adam", ...; format: of its first floating-point tensor.
    """

    name: str
    kind: str
    format: str
    flop: float
    bytes: int
    calls: int = 1

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: FLOP for each byte that is read or written."""
        return self.flop / self.bytes if self.bytes else 0.0

    def seconds(self, machine: Machine) -> float:
        """Of all its calls: the longest of arithmetic, bytes and launch, each time."""
        arithmetic = self.flop / machine.product(self.format)
        return self.calls * max(arithmetic, self.bytes / machine.bytes_per_s, machine.call_s)


@dataclass(frozen=True)
class Account:
    """The operations of one step."""

    ops: tuple[Op, ...]

    @property
    def calls(self) -> int:
        """How many operations Python launches, views included."""
        return sum(op.calls for op in self.ops)

    @property
    def flop(self) -> float:
        """Of all calls."""
        return sum(op.calls * op.flop for op in self.ops)

    @property
    def bytes(self) -> int:
        """Read and written by all calls, as if nothing stayed in a cache between two of them."""
        return sum(op.calls * op.bytes for op in self.ops)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity of the whole step: FLOP a byte."""
        return self.flop / self.bytes if self.bytes else 0.0

    def seconds(self, machine: Machine) -> float:
        """How long the step takes if every call runs at the machine's limit."""
        return sum(op.seconds(machine) for op in self.ops)

    def launch_share(self, machine: Machine) -> float:
        """Of `seconds`, the share of the operations that last no longer than their launch."""
        small = [op for op in self.ops if op.seconds(machine) == op.calls * machine.call_s]
        return sum(op.seconds(machine) for op in small) / self.seconds(machine)

    def by_kind(self) -> "dict[str, Account]":
        """An account for each kind of operation, the one with the most arithmetic first."""
        kinds = dict.fromkeys(op.kind for op in self.ops)
        parts = {kind: self.only(kind) for kind in kinds}
        return dict(sorted(parts.items(), key=lambda part: -part[1].flop))

    def only(self, *kinds: str) -> "Account":
        """Of these kinds alone."""
        return Account(tuple(op for op in self.ops if op.kind in kinds))

    def without(self, *kinds: str) -> "Account":
        """Of all other kinds: what would be left if these cost nothing."""
        return Account(tuple(op for op in self.ops if op.kind not in kinds))


def account(step: Callable[[], object], device: torch.device | str = "cpu") -> Account:
    """Run `step` once, and list what it asks of `device`.

    What torch.compile has compiled runs eagerly meanwhile. The FLOP of products are those of
    `torch.utils.flop_counter`; bytes are the inputs read and the outputs written, and a view moves
    none. The optimizer's operations are all of one kind, its class's name.
    """
    with _Listing(torch.device(device)) as listing, listing.watching_optimizers():
        step()
    return Account(tuple(_op(key, calls) for key, calls in listing.seen.items()))


def predicted_gain(before: Account, after: Account, machine: Machine) -> float:
    """How many times as fast `after` is, if both run at the machine's limits."""
    return before.seconds(machine) / after.seconds(machine)


def _op(key: tuple, calls: int) -> Op:
    name, kind, format, flop, moved = key
    return Op(name, kind, format, flop, moved, calls)


class _Listing(TorchDispatchMode):
    """Notes every operation that reaches the device, below autograd and autocast."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device, self.seen, self.inside = device, Counter(), ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        read, written = _tensors((args, kwargs)), _tensors(out) or _in_place(func, args)
        if func.overloadpacket in flop_counter.flop_registry or "_scaled_dot" in name:
            flop = _product_flop(func.overloadpacket, args, kwargs, out)
        else:
            flop = _other_flop(name, func, read, written)
        key = (name, self.inside or kind_of(name), _format(read + written, self.device),
               flop, _moved(func, read, written))  # fmt: skip
        self.seen[key] += 1
        return out

    @contextlib.contextmanager
    def watching_optimizers(self) -> Iterator[None]:
        """Operations between the hooks belong to the optimizer, whichever they are."""
        hooks = (
            optimizer.register_optimizer_step_pre_hook(self._enter),
            optimizer.register_optimizer_step_post_hook(self._leave),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, optimizer: object, *_: object) -> None:
        self.inside = type(optimizer).__name__

    def _leave(self, *_: object) -> None:
        self.inside = ""


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _in_place(func: Any, args: tuple) -> list[torch.Tensor]:
    """What foreach and fused kernels write: they return nothing. Gradients they only read."""
    marked = zip(func._schema.arguments, args, strict=False)
    return _tensors(
        [
            given
            for asked, given in marked
            if asked.alias_info and asked.alias_info.is_write and asked.name != "grads"
        ]
    )


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _moved(func: Any, read: list[torch.Tensor], written: list[torch.Tensor]) -> int:
    """Bytes: a lookup reads the rows that it gives, not the whole table."""
    name = func.overloadpacket.__name__
    if _is_view(func) or name.startswith(MOVES_NOTHING):
        return 0
    out = sum(_stored(tensor) for tensor in written)
    if name in ("embedding", "index", "gather"):
        return 2 * out
    return out + sum(_stored(tensor) for tensor in read)


def _stored(tensor: torch.Tensor) -> int:
    """Bytes of a tensor; what was expanded to a shape has only what it was expanded from."""
    sizes = (
        zip(tensor.shape, tensor.stride(), strict=True) if tensor.layout is torch.strided else ()
    )
    count = 1
    for length, stride in sizes:
        count *= length if stride else 1
    return count * tensor.element_size()


def _product_flop(packet: Any, args: tuple, kwargs: dict, out: object) -> float:
    formula = flop_counter.flop_registry.get(packet)
    if formula:
        return float(formula(*args, **kwargs, out_val=out))
    shapes = [tensor.shape for tensor in args[:4] if isinstance(tensor, torch.Tensor)]
    if "backward" in packet.__name__:  # the CPU's kernel has no formula in torch
        return float(flop_counter.sdpa_backward_flop_count(*shapes))
    return float(flop_counter.sdpa_flop_count(*shapes[:3]))


def _other_flop(name: str, func: Any, read: list, written: list) -> float:
    if name in COPIES or _is_view(func) or name.startswith(MOVES_NOTHING):
        return 0.0
    most = max((tensor.numel() for tensor in (*read, *written)), default=0)
    if name == "_fused_adam_":  # of parameter, gradient and two moments: 12 FLOP a parameter
        most = sum(tensor.numel() for tensor in read if tensor.dim())
    return float(PER_ELEMENT.get(name, 1) * most)


def kind_of(name: str) -> str:
    """The kind of the operation `name` of torch: "matmul", "softmax", ...; "other" if none."""
    for kind, starts in KINDS.items():
        exact = kind in ("matmul", "copy")
        if name in starts if exact else name.startswith(starts):
            return kind
    return "other"


def _format(tensors: list[torch.Tensor], device: torch.device) -> str:
    dtype = next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), None)
    tf32 = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    if dtype is torch.float32 and tf32:
        return "tf32"
    return WORDS.get(dtype, str(dtype).removeprefix("torch.")) if dtype else "integer"
