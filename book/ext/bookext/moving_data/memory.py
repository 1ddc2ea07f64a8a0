"""What one rank of a large job keeps on its card: the figure's formula, and what it is told.

`rankbook.predict.memory` counts more, and as torch does it. The figure has what fits in one
picture: for an OPT trained with Adam, everything is cut evenly (with tensor parallelism sequences
are, too), and these are left out: the driver's and NCCL's own memory (about a GiB), fragmentation,
what operations need for a moment (gradients of activations, DDP's and ZeRO's buckets), the logits'
gradient, and the numbers that norms and a fused attention keep in 32 bits. A real rank has more:
leave a tenth.
"""

from dataclasses import replace

from rankbook.predict.memory.activations import layer_of
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.states import cuts, widths

PRECISIONS = ("bf16", "float32")
CHECKPOINTING = ("none", "attention", "layers")  # "none": attention's weights are kept as well
VOCABULARY = 50_272


def _opt(layers: int, hidden: int, heads: int) -> ModelShape:
    return ModelShape(
        layers, hidden, heads, 4 * hidden, VOCABULARY, tied=True, positions=True, dropout=True
    )


# https://arxiv.org/abs/2205.01068, table 1, by billions of parameters
MODELS = {
    "0.1": _opt(12, 768, 12),
    "0.4": _opt(24, 1024, 16),
    "1.3": _opt(24, 2048, 32),
    "2.7": _opt(32, 2560, 32),
    "6.7": _opt(32, 4096, 32),
    "13": _opt(40, 5120, 40),
    "30": _opt(48, 7168, 56),
    "66": _opt(64, 9216, 72),
}


def data() -> dict:
    """Of each model what its memory depends on; of each precision the bytes of value and state."""
    names = ("layers", "hidden", "heads", "vocabulary", "sequence")
    return {
        "models": {
            model: {name: getattr(shape, name) for name in names} for model, shape in MODELS.items()
        },
        "precisions": {name: [widths(name).parameter, widths(name).state] for name in PRECISIONS},
    }


def rank_memory(shape: ModelShape, setup: Setup) -> dict[str, float]:
    """Bytes by part of a rank of the first pipeline stage: most activations, and the embeddings.

    What is whole for a moment is counted: from ZeRO's stage 2 on the gradients of one layer, and in
    stage 3 what belongs to no layer and two layers, the one at work and the one fetched ahead.
    """
    layers = -(-shape.layers // setup.pp)
    layer, root = shape.layer / setup.tp, (shape.embedding + shape.head) / setup.tp
    mine = layers * layer + root
    width, cut = widths(setup.precision), cuts(setup.zero, setup.dp)
    parameters, gradients = width.parameter * mine / cut[0], width.gradient * mine / cut[1]
    if cut[0] > 1:
        parameters += width.parameter * (root + min(2, layers) * layer)
    if cut[1] > 1:
        gradients += width.gradient * layer
    return {
        "parameters": parameters,
        "gradients": gradients,
        "optimizer": width.state * mine / cut[2],
        "activations": activations(shape, setup),
    }


def activations(shape: ModelShape, setup: Setup) -> float:
    """Bytes that the forward pass leaves for the backward pass, on a rank of the first stage.

    With `checkpointing` "layers" one layer at a time has all, but attention's weights. A pipeline
    of one-forward-one-backward has as many microbatches under way on its first stage as there are
    stages. Without a pipeline the last layer's logits are here as well, in 32 bits. Raises
    ValueError for checkpointing that the figure does not have.
    """
    if setup.checkpointing not in CHECKPOINTING:
        known = ", ".join(CHECKPOINTING)
        raise ValueError(f"checkpointing {setup.checkpointing!r}: use one of {known}")
    width, tokens = widths(setup.precision).compute, shape.sequence * setup.sequences
    values = tokens * shape.hidden / setup.tp
    layers = -(-shape.layers // setup.pp)
    # and the mask of the embeddings' dropout
    kept = setup.pp * (layers * tokens * _of_layer(shape, setup) + values)
    if setup.checkpointing == "layers":
        kept += tokens * _of_layer(shape, replace(setup, checkpointing="attention"))
    if setup.pp == 1:
        kept += 2 * width * values + 4 * tokens * shape.vocabulary / setup.tp
    return kept


def _of_layer(shape: ModelShape, setup: Setup) -> float:
    """Of one layer and token, as published: without what norms keep in 32 bits."""
    found = layer_of(shape, replace(setup, eager_attention=True, regather=True)).layer
    return found - (0 if setup.checkpointing == "layers" else 16 / setup.tp)
