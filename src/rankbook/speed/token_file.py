"""Token ids in a file: made once, read anywhere, also where there is no tokenizer.

The format is numpy's .npz, a zip of arrays: it needs no pickle, and has checksums.
"""

import hashlib
import json
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from rankbook.data.sources import SHA256, Absent, announce, cache_folder, local_files
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size

FORMAT = 1
ARRAYS = ("ids", "offsets", "labels")
FOLDERS = ("imdb", "distilbert-vocab")


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as own:  # others see the whole file or none
        new = Path(own, "tokens.npz")
        numpy.savez_compressed(new, about=numpy.array(json.dumps(about)), **arrays)
        new.replace(path)


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


def kept(size: Size) -> dict[str, Reviews] | None:
    """The splits that `keep` kept for `size`; None without, or if the file is damaged."""
    path = _path(size)
    if path is None or not path.is_file():
        return None
    try:
        splits = load_tokens(path, size)
    except ValueError:
        return None  # it is made again
    for line in splits["train"].source.splitlines():
        announce(line)
    return splits


def keep(splits: dict[str, Reviews], size: Size) -> dict[str, Reviews]:
    """Keep `splits` for the next time, if they are of files whose content is known; return them.

    A folder that cannot be written to is no error: the next time takes as long as this one.
    """
    if path := _path(size):
        with suppress(OSError):
            save_tokens(splits, size, path)
    return splits


def _path(size: Size) -> Path | None:
    """A name made of all that decides on the ids; None if the texts are not the known files."""
    try:
        for folder in FOLDERS:
            local_files(folder)  # checks the files' sums
    except Absent:
        return None
    sums = [SHA256[name] for name in sorted(SHA256) if name.split("/")[0] in FOLDERS]
    decides = repr((FORMAT, sums, size.max_length, size.splits))
    name = hashlib.sha256(decides.encode()).hexdigest()[:24]
    return cache_folder() / f"imdb-{name}.npz"
