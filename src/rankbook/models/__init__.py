"""The models that the book trains."""

from rankbook.later import later
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise, preset

# imported when asked for, as in rankbook.parallel: live ranks import this package early
_LATER = {
    "Classifier": "classifier",
    "ClassifierConfig": "classifier",
    "load_pretrained": "pretrained",
}

__all__ = ["TransformerConfig", "TransformerLM", "initialise", "preset", *_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
