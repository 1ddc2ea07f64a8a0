"""Training faster, one factor at a time: sizes, data, recipes, and what measures them."""

import importlib

# imported when asked for, as in rankbook.parallel; a name is never that of a file here, which
# importing the file would put in its place
_LATER = {
    "Batch": "batches",
    "Order": "batches",
    "Padding": "batches",
    "Reviews": "reviews",
    "SIZES": "sizes",
    "Size": "sizes",
    "WAYS": "batches",
    "load_tokens": "token_file",
    "loader": "batches",
    "made_up": "reviews",
    "make_batch": "batches",
    "padding": "batches",
    "save_tokens": "token_file",
    "size": "sizes",
    "tokenised": "reviews",
}

__all__ = [*_LATER]


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__
