"""The models that the book trains."""

import importlib

from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise, preset

# imported when asked for, as in rankbook.parallel: live ranks import this package early
_LATER = {
    "Classifier": "classifier",
    "ClassifierConfig": "classifier",
    "load_pretrained": "pretrained",
}

__all__ = ["TransformerConfig", "TransformerLM", "initialise", "preset", *_LATER]


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__
