"""What a device did during one step, and when it did nothing: from torch's profiler."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rankbook.speed.accounts import kind_of
from rankbook.speed.measure import now

# what only makes or relabels a tensor is Python's and the dispatcher's time, not the device's
BOOKKEEPING = (
    "empty", "as_strided", "view", "t", "transpose", "expand", "reshape", "detach", "slice",
    "select", "unsqueeze", "squeeze", "resize_", "permute", "unflatten", "flatten", "alias",
    "narrow", "split", "unbind", "result_type", "is_nonzero", "item", "lift_fresh", "set_",
    "resolve_conj", "resolve_neg", "broadcast_tensors", "_unsafe_view", "new_empty", "ones_like",
)  # fmt: skip


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

    @property
    def gap_share(self) -> float:
        """The share of the step in which no operation ran."""
        return sum(end - start for start, end in self.gaps) / self.seconds

    @property
    def busy_share(self) -> float:
        """The share of the step in which one ran."""
        return 1.0 - self.gap_share


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
    events = list(profiler.events())
    whole = next(e for e in events if e.name == "step" and e.device_type == DeviceType.CPU)
    begin, end = whole.time_range.start, whole.time_range.end
    inside = [e for e in events if begin <= e.time_range.start and e.time_range.end <= end]
    kernels = inside_gpu(inside) if cuda else leaves(inside)
    marks = [e for e in inside if e.is_user_annotation and e is not whole]
    return Trace(_spans(kernels, begin), _spans(marks, begin), (end - begin) * 1e-6)


def leaves(events: Iterable) -> list:
    """Operations that call no other one, without those that only relabel a tensor."""
    names = {f"aten::{name}" for name in BOOKKEEPING}
    starts = ("aten::", "mkldnn", "triton", "graph_", "cpp_")
    return [
        event
        for event in events
        if event.device_type == DeviceType.CPU
        and event.name.startswith(starts)
        and event.name not in names
        and all(child.name in names for child in event.cpu_children)
    ]


def inside_gpu(events: Iterable) -> list:
    """What ran on the GPU itself: kernels and copies."""
    return [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]


def _spans(events: Iterable, begin: float) -> tuple[Span, ...]:
    spans = []
    for event in events:
        name = event.name.removeprefix("aten::")
        start, end = ((at - begin) * 1e-6 for at in (event.time_range.start, event.time_range.end))
        spans.append(Span(name, kind_of(name), start, end))
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))
