"""What the forward pass leaves for the backward pass: counted tensor by tensor, for one token.

What autograd saves of a layer, in the order in which it is made: the layer's input (for the norm,
and the sum behind it), the norm's result (for the matrices that read it, once), queries, keys and
values, the attention's result, the sum, its norm's result, and what lies between the perceptron's
two matrices. In 32 bits: a norm's mean and deviation, and one number a head of fused attention.
Source: Korthikanti et al., https://arxiv.org/abs/2205.05198, sections 4 and 5; their 34 s b h is
this with GELU and dropout, in 16 bits.
"""

from typing import NamedTuple

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.states import widths


class Kept(NamedTuple):
    """Bytes for each token of a microbatch.

    layer: what a layer leaves, its input included. anew: what a layer's backward pass makes anew
    before it can begin. work: what it needs besides, at its fullest. stream: what goes from layer
    to layer. tail: what is there when it ends. Formulas of `layer` and
    `work` in letters beside them.
    """

    layer: float
    anew: float
    work: float
    stream: float
    tail: float
    work_formula: str
    formula: str


def layer_of(shape: ModelShape, setup: Setup) -> Kept:
    """Of one layer, of one token of this rank's microbatch; tensor parallelism has cut it."""
    t, c = setup.tp, widths(setup.precision).compute
    s = t if setup.sequence_parallel else 1  # parts of each sequence
    h, f = shape.hidden, shape.feed_forward / t
    full = _full(shape, setup, s)
    matrices = (shape.queries + 2 * shape.keys) / t  # q, k, v
    stream = c * h / s
    # the stream's gradient, gathered where a matrix is cut by rows, and those of what is between
    between = _gradients(shape) + (_fetched(shape) if "activations" in setup.offload else 0)
    work = stream + c * (between * f if s == 1 else max(h + f, between * f))
    # its input, the norm's result, the gradients of both, of queries, keys and values
    tail = c * (2 * h / s + 2 * h + matrices)
    ends = stream, tail, f"{c} b (h + {between} f)/t"
    if "activations" in setup.offload:
        return Kept(0.0, 0.0, work, *ends, "0, on the host")
    if setup.checkpointing == "layers":
        return Kept(stream, full - stream, work, *ends, f"{c} h/t")
    if setup.checkpointing == "selective":
        sums = 2 * h / s + (2 * h if s > 1 else 0)  # behind rows, and the parts of them
        kept = c * (h / s + matrices + sums + (2 if shape.gated else 1) * f)
        anew = max(0.0, full - c * (h / s + matrices))
        return Kept(kept, anew, work, *ends, f"{c} (3 h + q + 2 k + f)/t")
    core = _core(shape, setup) if setup.checkpointing == "attention" else 0.0
    streams = "4 h" if s == 1 or setup.regather else "2 h + 2 t h"
    inner = _between(shape)
    letters = f"{c} ({streams} + 2 q + 2 k + {inner if inner > 1 else ''}f)/t"
    return Kept(full - core, core, work, *ends, letters)


def _full(shape: ModelShape, setup: Setup, s: int) -> float:
    """Bytes of all that autograd saves; `s`: into how many parts sequences are cut."""
    t, c, h = setup.tp, widths(setup.precision).compute, shape.hidden
    gathered = h / s if setup.regather else h  # the norms' results
    values = 2 * h / s + 2 * gathered + (2 * shape.queries + 2 * shape.keys) / t
    values += _between(shape) * shape.feed_forward / t
    exact = 2 * (2 if shape.biases else 1) / s  # in 32 bits
    masks = 2 * h / s if shape.dropout else 0.0
    return c * values + 4 * exact + masks + _core(shape, setup)


def _core(shape: ModelShape, setup: Setup) -> float:
    """Of it, what lies inside attention, between queries, keys, values and the result."""
    if not setup.eager_attention:
        return 4 * shape.heads / setup.tp
    weights = shape.heads * shape.sequence / setup.tp
    values = (2 if shape.dropout else 1) * widths(setup.precision).compute
    return (values + (1 if shape.dropout else 0)) * weights  # a mask takes a byte


def _between(shape: ModelShape) -> int:
    """Tensors as wide as the perceptron that are kept.

    ReLU's result, which the next matrix keeps as well; GELU's input besides; gated, both inputs of
    the product, the gate's own input, and the product.
    """
    if shape.gated:
        return 4
    return 1 if shape.relu else 2


def _gradients(shape: ModelShape) -> int:
    """Gradients as wide as the perceptron that are there at once, beyond what they set free."""
    return 2 if shape.gated or shape.relu else 1


def _fetched(shape: ModelShape) -> int:
    """Tensors as wide as the perceptron that come back from the host for one operation."""
    if shape.gated:
        return 3
    return 1 if shape.relu else 2


def of_logits(setup: Setup) -> tuple[int, int, int]:
    """Bytes for each logit of a token: while the loss goes back, while it waits, and after it.

    The logits themselves, which whoever runs the model holds on to; cross entropy's results in 32
    bits; and, at the fullest moment, the gradient that goes into it and the one that comes out.
    With the vocabulary cut, the two are one.
    """
    c = widths(setup.precision).compute
    return c + 4 * (3 if setup.tp == 1 else 2), c + 4, c
