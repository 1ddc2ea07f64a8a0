"""Token ids in a file: made once, read anywhere, also where there is no tokenizer.

The format is numpy's .npz, a zip of arrays: it needs no pickle, and has checksums.
"""

import json
import zipfile
import zlib
from pathlib import Path

import torch

from rankbook.core.atomic import write_atomic
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size

FORMAT = 1
ARRAYS = ("ids", "offsets", "labels")


def save_tokens(splits: dict[str, Reviews], size: Size, path: str | Path) -> None:
    """Write `splits`, made for `size`, to `path` in one step. Raises OSError."""
    import numpy

    path = Path(path)
    about = {
        "format": FORMAT,
        "max_length": size.max_length,
        "vocabulary": splits["train"].vocabulary,
        "source": splits["train"].source,
    }
    arrays = {
        f"{name}.{array}": getattr(reviews, array).numpy()
        for name, reviews in splits.items()
        for array in ARRAYS
    }
    arrays["about"] = numpy.array(json.dumps(about))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, lambda file: numpy.savez_compressed(file, **arrays))


def load_tokens(path: str | Path, size: Size) -> dict[str, Reviews]:
    """Read the splits for `size` from `path`: the first rows, if the file has more.

    Raises FileNotFoundError, and ValueError for a file that is torn, no tokens file, or made for
    another length, another vocabulary or fewer reviews: one sentence each.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no tokens file {path}; make one with save_tokens")
    try:
        about, splits = _read(path)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise ValueError(
            f"{path} is no tokens file of this book, or a part of it is missing; make it again"
        ) from None
    if about["max_length"] != size.max_length:
        raise ValueError(
            f"{path} has texts cut at {about['max_length']} tokens, not at {size.max_length}; "
            "make it again for this size"
        )
    if about["vocabulary"] > size.model.vocab_size:
        raise ValueError(
            f"{path} has a vocabulary of {about['vocabulary']}, and the model one of "
            f"{size.model.vocab_size}; make it again for this size"
        )
    for name, count in size.splits.items():
        if len(splits[name]) < count:
            raise ValueError(
                f"{path} has {len(splits[name])} reviews in {name}, and this size needs {count}; "
                "make it again for this size"
            )
    return {name: splits[name].first(count) for name, count in size.splits.items()}


def _read(path: Path) -> tuple[dict, dict[str, Reviews]]:
    """What a file says of itself, and all its splits. Many kinds of error, if it is torn."""
    import numpy

    with numpy.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        if about["format"] != FORMAT:
            raise ValueError("another format")
        splits = {}
        for name in ("train", "validation", "test"):
            ids, offsets, labels = (torch.from_numpy(file[f"{name}.{array}"]) for array in ARRAYS)
            if len(offsets) != len(labels) + 1 or offsets[-1] != len(ids):
                raise ValueError("the arrays do not belong together")
            splits[name] = Reviews(ids, offsets, labels, about["vocabulary"], about["source"])
    return about, splits
