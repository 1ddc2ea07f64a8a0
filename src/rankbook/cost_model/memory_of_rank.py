"""What one rank of a large job keeps on its card: by formula, before anything is started.

For a Transformer of the plain kind (a perceptron four times as wide, learned positions, tied
embeddings), trained with Adam by data, tensor and pipeline parallel ranks. Everything is cut
evenly; with tensor parallelism sequences are, too (sequence parallelism).

Left out: the driver's and NCCL's own memory (about a GiB), fragmentation, what operations need for
a moment (gradients of activations, DDP's and ZeRO's buckets), the logits' gradient, and the one
number that a fused attention keeps for each head and token. A real rank has more: leave a tenth.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Transformer:
    """The sizes of a model; `sequence` is in tokens."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 50_272
    sequence: int = 2048

    @property
    def layer(self) -> int:
        """Parameters of a layer: 12 squares of the width, biases and two norms."""
        return 12 * self.hidden**2 + 13 * self.hidden

    @property
    def root(self) -> int:
        """Parameters of no layer: tokens, positions, and the norm at the end."""
        return (self.vocabulary + self.sequence + 2) * self.hidden

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.layers * self.layer + self.root


# The shapes of OPT, https://arxiv.org/abs/2205.01068, table 1, by billions of parameters.
MODELS = {
    "0.1": Transformer(12, 768, 12),
    "0.4": Transformer(24, 1024, 16),
    "1.3": Transformer(24, 2048, 32),
    "2.7": Transformer(32, 2560, 32),
    "6.7": Transformer(32, 4096, 32),
    "13": Transformer(40, 5120, 40),
    "30": Transformer(48, 7168, 56),
    "66": Transformer(64, 9216, 72),
}


class Precision(NamedTuple):
    """Bytes of a value (a parameter, its gradient, an activation), and of Adam's state for it."""

    value: int
    state: int


# With bf16, Adam has a copy of the parameters in 32 bits beside its two averages.
# Source: ZeRO, https://arxiv.org/abs/1910.02054, section 3.1
PRECISIONS = {"fp32": Precision(4, 8), "bf16": Precision(2, 12)}
CHECKPOINTING = ("nothing", "attention", "layers")


@dataclass(frozen=True)
class Kept:
    """Bytes on one rank's card at the fullest moment of a step."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def rank_memory(
    model: Transformer,
    zero: int = 0,
    data: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
    sequences: int = 1,
    precision: str = "bf16",
    checkpointing: str = "attention",
) -> Kept:
    """What a rank of the first pipeline stage keeps, which has most activations and the embeddings.

    zero: the stage of ZeRO, over the `data` ranks: 1 cuts the optimizer's state, 2 the gradients
    as well, 3 the parameters as well. What is whole for a moment is counted: in stages 2 and 3 the
    gradients of one layer, and in stage 3 what belongs to no layer and two layers, the one at work
    and the one fetched ahead. sequences: of one microbatch. The rest: see `activations`.

    Source: ZeRO, https://arxiv.org/abs/1910.02054, section 5. Raises ValueError.
    """
    if zero not in range(4):
        raise ValueError(f"ZeRO has the stages 0 to 3, not {zero}")
    layers = -(-model.layers // pipeline)
    layer, root = model.layer / tensor, model.root / tensor
    mine = layers * layer + root
    cut = [data if zero >= stage else 1 for stage in (3, 2, 1)]  # parameters, gradients, state
    width, state = PRECISIONS[precision]
    parameters, gradients = width * mine / cut[0], width * mine / cut[1]
    if cut[0] > 1:
        parameters += width * (root + min(2, layers) * layer)
    if cut[1] > 1:
        gradients += width * layer
    kept = activations(model, tensor, pipeline, sequences, precision, checkpointing)
    return Kept(parameters, gradients, state * mine / cut[2], kept)


def activations(
    model: Transformer,
    tensor: int = 1,
    pipeline: int = 1,
    sequences: int = 1,
    precision: str = "bf16",
    checkpointing: str = "attention",
) -> float:
    """Bytes that the forward pass leaves for the backward pass, on a rank of the first stage.

    checkpointing: what is not kept. "nothing" is left out: attention's weights are there, three
    times a layer. "attention": without these, because a fused kernel never has them all, or because
    they are computed anew. "layers": only each layer's input is kept, and one layer at a time has
    the rest, again without attention's weights.

    A pipeline of one-forward-one-backward has as many microbatches under way on its first stage as
    there are stages. Without a pipeline the last layer's logits are here as well, in 32 bits.

    Source: Korthikanti et al., https://arxiv.org/abs/2205.05198, sections 4.1 to 4.3 and 5: in 16
    bits, s b h (34 + 5 a s / h) bytes a layer. Of the 34, 32 are values and 2 are the masks of
    dropout, a byte each; of the 5, 4 and 1. Raises ValueError.
    """
    if checkpointing not in CHECKPOINTING:
        raise ValueError(f"checkpointing {checkpointing!r}: use one of {', '.join(CHECKPOINTING)}")
    width = PRECISIONS[precision].value
    tokens = model.sequence * sequences
    values = tokens * model.hidden / tensor
    weights = model.heads * model.sequence * tokens / tensor
    whole = (16 * width + 2) * values
    a_layer = {
        "nothing": whole + (2 * width + 1) * weights,
        "attention": whole,
        "layers": width * values,
    }[checkpointing]
    layers = -(-model.layers // pipeline)
    kept = pipeline * (layers * a_layer + values)  # and the mask of the embeddings' dropout
    if checkpointing == "layers":
        kept += whole
    if pipeline == 1:
        kept += 2 * width * values + 4 * tokens * model.vocabulary / tensor
    return kept
