"""What a device did during one step, and when it did nothing: from torch's profiler."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rankbook.core.timing import now
from rankbook.speed.accounts import kind_of

# these make or relabel a tensor: that is the dispatcher's time, and no work of the device
BOOKKEEPING = frozenset(
    f"aten::{name}"
    for name in (
        "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "as_strided",
        "view", "_unsafe_view", "_reshape_alias", "t", "transpose", "expand", "expand_as",
        "reshape", "detach", "slice", "select", "unsqueeze", "squeeze", "resize_", "permute",
        "unflatten", "flatten", "alias", "narrow", "split", "split_with_sizes", "unbind", "item",
        "result_type", "_local_scalar_dense", "lift_fresh", "set_", "resolve_conj", "is_nonzero",
        "resolve_neg", "view_as",
    )
)  # fmt: skip


# parts of the names that GPU kernels bear, the first that fits counts
KERNELS = {
    "attention kernel": ("flash", "fmha", "attention", "sdp"),
    "matmul": ("gemm", "cutlass", "nvjet", "cublas", "splitk", "gemv"),
    "softmax": ("softmax",),
    "layer norm": ("layer_norm", "layernorm", "gammabeta"),
    "gelu": ("gelu",),
    "Adam": ("adam", "multi_tensor_apply"),
    "embedding": ("embedding", "index_select"),
    "copy": ("memcpy", "memset", "copy", "catarray", "fillfunctor"),
}


@dataclass(frozen=True)
class Span:
    """One operation of the device: from `start` to `end`, in seconds since the step began."""

    name: str
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Trace:
    """A step: its operations in the order of their start, and its named parts.

    seconds: of the whole step, under the profiler, which slows it down; `marks` are what
    `torch.profiler.record_function` and the optimizer name.
    """

    spans: tuple[Span, ...]
    marks: tuple[Span, ...]
    seconds: float

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        """When no operation ran: from when to when."""
        found, at = [], 0.0
        for span in self.spans:
            if span.start > at:
                found.append((at, span.start))
            at = max(at, span.end)
        return (*found, (at, self.seconds)) if at < self.seconds else tuple(found)

    def by_kind(self) -> dict[str, float]:
        """Seconds in each kind of operation; the optimizer's are one kind, with its name."""
        spent: dict[str, float] = {}
        for span in self.spans:
            spent[span.kind] = spent.get(span.kind, 0.0) + span.end - span.start
        return spent

    @property
    def gap_share(self) -> float:
        """The share of the step in which no operation ran."""
        return sum(end - start for start, end in self.gaps) / self.seconds


def trace(step: Callable[[], object], device: torch.device | str = "cpu") -> Trace:
    """Run `step` once to warm up, and once under torch's profiler.

    On a GPU an operation is a kernel, and a gap is time in which the GPU waited for Python. On a
    CPU it is an operation that calls no other; its launch is partly inside of it, so that the
    gaps are the least that Python and autograd cost.
    Source: https://docs.pytorch.org/docs/stable/profiler.html
    """
    device = torch.device(device)
    cuda = device.type == "cuda"
    step()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda
    with profile(activities=activities) as profiler:
        now(device)
        with torch.profiler.record_function("step"):
            step()
            now(device)
    events = list(profiler.events() or ())
    whole = next(e for e in events if e.name == "step" and e.device_type == DeviceType.CPU)
    begin, end = whole.time_range.start, whole.time_range.end
    inside = [e for e in events if begin <= e.time_range.start and e.time_range.end <= end]
    # what a thread of autograd's own runs has no parent
    roots = [whole] + [e for e in inside if e.cpu_parent is None and e is not whole]
    kernels = inside_gpu(inside) if cuda else [e for root in roots for e in working(root)]
    # on a GPU a part is where its kernels ran, not where Python launched them
    where = DeviceType.CUDA if cuda else DeviceType.CPU
    named = [e for e in inside if e.is_user_annotation and e.device_type == where]
    marks = [e for e in named if e.name != "step"]
    parts = _spans(marks, begin)
    spans = tuple(_of_optimizer(span, parts) for span in _spans(kernels, begin))
    return Trace(spans, parts, (end - begin) * 1e-6)


def _of_optimizer(span: Span, marks: tuple[Span, ...]) -> Span:
    """The same span; within "Optimizer.step#Adam.step" it is of the kind "Adam"."""
    for mark in marks:
        prefix, _, name = mark.name.partition("#")
        if prefix == "Optimizer.step" and mark.start <= span.start < mark.end:
            return replace(span, kind=name.removesuffix(".step"))
    return span


def working(event: Any) -> list:
    """The operations in and below `event` that do the work, without those that only relabel.

    One that spends half of its time or more in others stands for nothing: they count in its place.
    """
    if event.name in BOOKKEEPING:
        return []
    below = [part for child in event.cpu_children for part in working(child)]
    operation = event.name.startswith(("aten::", "mkldnn", "graph_", "cpp_", "triton"))
    if not operation or sum(map(_long, below)) >= _long(event) / 2:
        return below
    return [event]


def _long(event: Any) -> float:
    return event.time_range.end - event.time_range.start


def inside_gpu(events: Iterable) -> list:
    """What ran on the GPU itself: kernels and copies."""
    return [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]


def kernel_kind(name: str) -> str:
    """The kind of the GPU kernel `name`, guessed from it; "other" if no word is known."""
    low = name.lower()
    for kind, words in KERNELS.items():
        if any(word in low for word in words):
            return kind
    return "other"


def _spans(events: Iterable, begin: float) -> tuple[Span, ...]:
    spans = []
    for event in events:
        name = event.name.removeprefix("aten::")
        start, end = ((at - begin) * 1e-6 for at in (event.time_range.start, event.time_range.end))
        gpu = event.device_type == DeviceType.CUDA
        spans.append(Span(name, kernel_kind(name) if gpu else kind_of(name), start, end))
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))
