"""What is assumed of a cluster and of the training on it: all of it in one place."""

from dataclasses import Field, dataclass, field, fields
from typing import Any

LLAMA = "Llama 3, arXiv:2407.21783, 3.3.4: 419 failures in 54 days of 2048 nodes"


def _assume(value: float, unit: str, why: str) -> Any:  # a field, typed as its value is
    return field(default=value, metadata={"unit": unit, "why": why})


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster that nobody measured: every value is an assumption, and can be replaced.

    Units stand with each field, and in `rows`. Raises ValueError for a value of 0 or less.
    """

    ranks_per_node: int = _assume(8, "", "each with a GPU")
    disk_bandwidth: float = _assume(50e9, "B/s", "the shared file system, to all nodes together")
    disk_requests: float = _assume(20e3, "1/s", "questions it answers: open, stat, a name")
    disk_latency: float = _assume(0.5e-3, "s", "of one question, while nobody else asks")
    node_bandwidth: float = _assume(5e9, "B/s", "between one node and the file system")
    latency: float = _assume(10e-6, "s", "a step to the next node; NCCL's own model has 14 µs")
    link_bandwidth: float = _assume(50e9, "B/s", "a network card of 400 Gbit/s for every rank")
    bucket: float = _assume(25 * 2**20, "B", "DDP's bucket: the default bucket_cap_mb")
    parameters: float = _assume(70e9, "", "of the model")
    global_batch: int = _assume(1024, "", "sequences a step, whatever the number of nodes")
    node_mtbf: float = _assume(54 * 86400 / 419 * 2048, "s", LLAMA)
    restart: float = _assume(300.0, "s", "from a failure to the step where it was saved")

    def __post_init__(self):
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise ValueError(
                    f"ClusterSpec: {each.name} is {getattr(self, each.name)}; give more than 0"
                )

    def rows(self) -> list[list[str]]:
        """One row an assumption: name, value with unit, why."""
        return [[f.name, _value(self, f), f.metadata["why"]] for f in fields(self)]

    def note(self, *names: str) -> str:
        """The assumptions called `names` on one line, to stand under a figure."""
        known = {f.name: f for f in fields(self)}
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"ClusterSpec has no {', '.join(unknown)}; it has {', '.join(known)}")
        parts = [f"{name.replace('_', ' ')} {_value(self, known[name])}" for name in names]
        return "assumed: " + ", ".join(parts)


def _value(spec: ClusterSpec, each: Field) -> str:
    """``50 GB/s``, ``10 µs``, ``264 days``."""
    value, unit = getattr(spec, each.name), each.metadata["unit"]
    if unit == "s":
        for seconds, name in ((86400, "days"), (3600, "h"), (1, "s"), (1e-3, "ms")):
            if value >= seconds:
                return f"{value / seconds:.3g} {name}"
        return f"{value * 1e6:.3g} µs"
    if unit == "1/s":
        return f"{value:,g}/s"
    if value >= 1e9:
        return f"{value / 1e9:.3g} {'billion' if not unit else 'G' + unit}"
    if value >= 1e6:
        return f"{value / 1e6:.3g} {'million' if not unit else 'M' + unit}"
    return f"{value:,g} {unit}".rstrip()
