"""One rank's backward pass by torch.profiler: what it computes, and what is sent meanwhile.

Source: https://docs.pytorch.org/docs/stable/profiler.html
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile

_NODE = "autograd::engine::evaluate_function: "  # what the profiler calls a node of the graph
_STORES = "torch::autograd::AccumulateGrad"  # where DDP hooks in: it fills and sends buckets there


class Span(NamedTuple):
    """Something that took from `start` to `end`, in seconds since the backward pass began."""

    name: str
    start: float
    end: float


class BackwardTrace(NamedTuple):
    """operations: nodes of the graph, as autograd ran them. sent: one `Span` an all_reduce.

    An all_reduce begins when it is handed over, and ends when its result is there.
    """

    operations: list[Span]
    sent: list[Span]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "BackwardTrace":
        """The trace that `as_dict` wrote, such as one of a result file."""
        return cls(*([Span(*each) for each in record[part]] for part in cls._fields))

    def as_dict(self) -> dict[str, list[list]]:
        """For a file: each span as [name, start, end], to the microsecond."""
        return {
            part: [[span.name, round(span.start, 6), round(span.end, 6)] for span in spans]
            for part, spans in zip(self._fields, self, strict=True)
        }

    @property
    def computed(self) -> float:
        """When the last gradient had been computed; from here on there is only communication."""
        return max(span.end for span in self.operations)

    @property
    def communication(self) -> float:
        """Seconds in which at least one all_reduce was on its way."""
        return self._sending(float("inf"))

    @property
    def hidden(self) -> float:
        """The share of `communication` that passed while gradients were still being computed."""
        return self._sending(self.computed) / self.communication if self.sent else 0.0

    def _sending(self, until: float) -> float:
        total, done = 0.0, float("-inf")
        for span in sorted(self.sent, key=lambda span: span.start):
            start, end = max(span.start, done), min(span.end, until)
            total += max(0.0, end - start)
            done = max(done, end)
        return total


def trace_backward(backward: Callable[[], object]) -> BackwardTrace:
    """What the profiler sees of this rank while `backward` runs; all ranks call.

    backward: runs a backward pass of a model in DDP, such as ``loss.backward``. DDP makes its
    buckets anew after its first backward pass: trace a later one. On a GPU, spans are those of the
    launches on the host. Raises ValueError if autograd computed nothing.
    """
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        backward()
    found = profiler.events() or []
    nodes = [event for event in found if event.name.startswith(_NODE)]
    if not nodes:
        raise ValueError("trace_backward: autograd ran nothing; hand over a backward pass")
    begin = min(event.time_range.start for event in nodes)

    def span(event, name: str) -> Span:
        times = event.time_range
        return Span(name, (times.start - begin) / 1e6, (times.end - begin) / 1e6)

    operations = [span(event, event.name.removeprefix(_NODE)) for event in nodes]
    sent = [span(event, event.name) for event in found if event.name.endswith(":all_reduce")]
    return BackwardTrace(
        [each for each in operations if each.name != _STORES],
        sorted(sent, key=lambda each: each.start),
    )
