"""A module's step on hundreds of fake ranks, in a process of its own, and the formula beside it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rankbook.predict.memory.formula import memory_of
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.terms import Terms
from rankbook.predict.plan.model import Model

LIMIT = 300.0  # seconds; 512 ranks and 32 layers take half a minute


@dataclass(frozen=True)
class Tracked:
    """What torch's tracker saw of one of `ranks` fake ranks, in bytes, and what the formula says.

    peak: at the fullest moment. parts: by torch's names. layers: what FSDP2 wrapped. formula: None
    where the input is no tokens.
    """

    ranks: int
    sizes: tuple[int, ...]
    peak: float
    parts: dict[str, float]
    layers: str
    seconds: float
    torch: str
    formula: Terms | None

    @property
    def difference(self) -> float:
        """Of the formula, as a share of what was tracked; 0.03 is 3 % too much."""
        return self.formula.total / self.peak - 1 if self.formula else 0.0


def track_module(
    spec: str,
    ranks: int,
    model: Model | None = None,
    sequences: int = 1,
    sizes: tuple[int, ...] = (),
    limit: float = LIMIT,
) -> Tracked:
    """Run two steps of the module that `spec` names on `ranks` fake ranks, and take the peak.

    spec: "package.file:function". model: with it, tokens of (sequences, model.shape.sequence) go
    in, and the formula is worked out. sizes: of another input, of float32. limit: in seconds.
    Raises ValueError, in one sentence.
    """
    if model is not None and not sizes:
        sizes = (sequences, model.shape.sequence)
    tokens = model is not None
    wanted = {"module": spec, "ranks": ranks, "sizes": list(sizes), "tokens": tokens}
    found = _ask(wanted, limit)
    formula = None
    if model is not None:
        setup = Setup(dp=ranks, zero=3, sequences=sizes[0], precision="fsdp-bf16")
        formula = memory_of(model.shape, setup)
    return Tracked(
        ranks=ranks,
        sizes=tuple(sizes),
        peak=found["total"],
        parts={name: size for name, size in found["parts"].items() if size},
        layers=found["layers"],
        seconds=found["seconds"],
        torch=found["torch"],
        formula=formula,
    )


def _ask(wanted: dict[str, Any], limit: float) -> dict[str, Any]:
    """What `fake_step` answers in a process of its own, as this one may have a group."""
    command = [sys.executable, "-m", "rankbook.predict.plan.fake_step", json.dumps(wanted)]
    where = f"{wanted['module']} on {wanted['ranks']} fake ranks"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"{where}: not done after {limit:.0f} s; give it longer (--time-limit), or use fewer "
            "layers or ranks"
        ) from None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise ValueError(f"{where}: its process ended ({last})") from None
    if "error" in found:
        raise ValueError(f"{where}: {found['error']}")
    return found
