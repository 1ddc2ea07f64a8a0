"""The shapes of the models, as `rankbook.cost_model` has them."""

from rankbook.cost_model import MODELS, PRECISIONS


def data() -> dict:
    """Of each model what its memory depends on; of each precision the bytes of value and state."""
    return {
        "models": {
            name: {
                "layers": model.layers,
                "hidden": model.hidden,
                "heads": model.heads,
                "vocabulary": model.vocabulary,
                "sequence": model.sequence,
            }
            for name, model in MODELS.items()
        },
        "precisions": {name: list(precision) for name, precision in PRECISIONS.items()},
    }
