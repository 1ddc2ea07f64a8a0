"""The shape of a model of which only the number of parameters is known."""

from dataclasses import replace

from rankbook.predict.memory.model_shape import ModelShape

VOCABULARY, HEAD = 128_256, 128
SMALL_VOCABULARY = 50_304  # below a billion, a large one would be most of the model


def shape_from_params(parameters: float, sequence: int = 4096) -> ModelShape:
    """A Llama-like model with about as many `parameters`: within a percent.

    Assumed: heads of 128 columns, groups of queries with eight heads of keys and values from a
    width of 4096 on, a width of about 128 times the layers, a gated perceptron about 3.5 times as
    wide, which takes up the rest. Raises ValueError for fewer than twenty million.
    """
    if not 2e7 <= parameters <= 1e13:
        raise ValueError(f"{parameters:g} parameters; a plan needs 20 million to 10 trillion")
    step = 1024 if parameters >= 2.5e9 else 256  # heads in eights, so that tp can cut them
    widths = range(step, 65_536 + 1, step)
    found = (shape for h in widths if (shape := _of_width(h, parameters, sequence)))
    return min(found, key=lambda shape: abs(shape.hidden / shape.layers / 128 - 1))


def _of_width(hidden: int, parameters: float, sequence: int) -> ModelShape | None:
    """With as many layers as are near, and a perceptron that makes up for the rest, if it can."""
    heads = hidden // HEAD
    grouped = 8 if hidden >= 4096 and heads % 8 == 0 else 0
    vocabulary = VOCABULARY if parameters >= 1e9 else SMALL_VOCABULARY
    typical = ModelShape(
        1,
        hidden,
        heads,
        _multiple(3.5 * hidden),
        vocabulary,
        sequence,
        kv_heads=grouped,
        gated=True,
        tied=parameters < 1e9,
        biases=False,
    )
    rest = parameters - typical.embedding - typical.head
    layers = max(1, round(rest / typical.layer))
    if layers > 8:
        layers = round(layers / 4) * 4  # so that stages can be equal
    spare = (rest / layers - typical.layer) / (3 * hidden)
    shape = replace(typical, layers=layers, feed_forward=_multiple(typical.feed_forward + spare))
    near = abs(shape.parameters / parameters - 1) < 0.01 and 2 < shape.feed_forward / hidden < 5
    return shape if near else None


def _multiple(size: float, of: int = 64) -> int:
    return max(1, round(size / of)) * of
