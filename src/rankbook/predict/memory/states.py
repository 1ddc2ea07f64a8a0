"""What stays from step to step: parameters, gradients, the optimizer's state; and who cuts what.

Source: ZeRO, https://arxiv.org/abs/1910.02054, sections 3.1 and 5.
"""

from typing import NamedTuple

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup


class Widths(NamedTuple):
    """Bytes of one value: a parameter, its gradient, Adam's state for it; what is computed with."""

    parameter: int
    gradient: int
    state: int
    compute: int


# with bf16 parameters Adam has a copy of them in 32 bits beside its two moments
WIDTHS = {
    "float32": Widths(4, 4, 8, 4),
    "bf16": Widths(2, 2, 12, 2),
    "bf16-fp32-grads": Widths(2, 4, 12, 2),
    "fsdp-bf16": Widths(4, 4, 8, 2),
    "bf16-states": Widths(2, 2, 4, 2),
}


class Share(NamedTuple):
    """Parameters that a rank computes with: a layer's, the two ends', how many layers it has."""

    layer: float
    first: float
    last: float
    layers: int

    @property
    def root(self) -> float:
        """Those that are in no layer."""
        return self.first + self.last

    @property
    def all(self) -> float:
        """All of them."""
        return self.layers * self.layer + self.root


def model_states(parameters: float, zero: int, ranks: int, precision: str = "bf16") -> float:
    """Bytes that a rank keeps from step to step: (2 + 2 + 12) P, cut as ZeRO's stage says.

    parameters: of the model, P. zero: 0, nothing is cut; 1, the optimizer's state; 2, gradients as
    well; 3, parameters as well; among `ranks`. Raises ValueError for another stage or precision.
    """
    if zero not in range(4):
        raise ValueError(f"ZeRO has the stages 0 to 3, not {zero}")
    if ranks < 1:
        raise ValueError(f"{ranks} ranks hold nothing; use 1 or more")
    width = widths(precision)
    cut = cuts(zero, ranks)
    whole = width.parameter / cut[0] + width.gradient / cut[1] + width.state / cut[2]
    return parameters * whole


def cuts(zero: int, ranks: int) -> tuple[int, int, int]:
    """Among how many ranks parameters, gradients and the optimizer's state are cut."""
    return (
        ranks if zero >= 3 else 1,
        ranks if zero >= 2 else 1,
        ranks if zero >= 1 else 1,
    )


def widths(precision: str) -> Widths:
    """The widths of a precision. Raises ValueError for an unknown one."""
    if precision not in WIDTHS:
        raise ValueError(f"precision {precision!r} is unknown; use one of {', '.join(WIDTHS)}")
    return WIDTHS[precision]


def layers_of(layers: int, stages: int, stage: int) -> int:
    """How many of `layers` a stage has: the first ones have one more, as `split_layers` does it."""
    return layers // stages + (stage < layers % stages)


def share(shape: ModelShape, setup: Setup, stage: int = 0) -> Share:
    """What a rank of `stage` computes with, parameters that others keep for it included.

    Tensor parallelism cuts the matrices and the biases of columns; each rank has all of the norms
    and the biases behind rows. Tied embeddings are on the first stage, and again on the last.
    Raises ValueError for a stage that is not there, and for more stages than layers.
    """
    if not 0 <= stage < setup.pp:
        raise ValueError(f"there is no stage {stage} of {setup.pp}; the first is 0")
    if setup.pp > shape.layers:
        raise ValueError(f"{setup.pp} stages cannot share {shape.layers} layers; use fewer stages")
    tp, h = setup.tp, shape.hidden
    norm = h * (2 if shape.biases else 1)
    whole = 2 * norm + (2 * h if shape.biases else 0)
    layer = (shape.layer - whole) / tp + whole
    first = shape.embedding / tp if stage == 0 else 0.0
    last = 0.0
    if stage == setup.pp - 1:
        copy = shape.vocabulary * h if shape.tied and setup.pp > 1 else 0
        last = (shape.head - norm + copy) / tp + norm
    return Share(layer, first, last, layers_of(shape.layers, setup.pp, stage))
