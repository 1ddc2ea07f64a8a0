"""Training faster, one factor at a time: sizes, data, recipes, and what measures them."""

from rankbook.later import later

# imported when asked for, as in rankbook.parallel; a name is never that of a file here, which
# importing the file would put in its place
_LATER = {
    "Batch": "batches",
    "LADDER": "recipes",
    "Order": "batches",
    "Padding": "batches",
    "Pass": "loop",
    "PeakMemory": "measure",
    "Recipe": "recipes",
    "Reviews": "reviews",
    "SIZES": "sizes",
    "SWITCHES": "recipes",
    "Size": "sizes",
    "Trained": "loop",
    "Training": "loop",
    "WAYS": "batches",
    "accuracy": "loop",
    "changed": "recipes",
    "formats": "precision",
    "load_tokens": "token_file",
    "loader": "batches",
    "loader_of": "loop",
    "made_up": "reviews",
    "make_batch": "batches",
    "matmul_peak": "measure",
    "one_pass": "loop",
    "padding": "batches",
    "reason_to_skip": "skipping",
    "recipe": "recipes",
    "run": "ladder",
    "save_tokens": "token_file",
    "size": "sizes",
    "step_flop": "measure",
    "tokenised": "reviews",
    "train": "loop",
}

__all__ = [*_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
