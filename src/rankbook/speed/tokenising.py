"""IMDB's texts as token ids: tokenised once, kept in the cache, read again without a tokenizer."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rankbook.data import distilbert_tokenizer, imdb
from rankbook.data.sources import SHA256, Absent, announce, cache_folder, local_files
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size
from rankbook.speed.token_file import FORMAT, load_tokens, save_tokens

AT_A_TIME = 1000  # texts to tokenise: as Python's numbers, all 50,000 would take half a gigabyte
FOLDERS = ("imdb", "distilbert-vocab")


def tokenised(size: Size) -> dict[str, Reviews]:
    """IMDB's splits "train", "validation" and "test", the first rows of each, for `size`.

    Texts are as `rankbook.data.imdb` gives them, with their ``<br />``; ids begin with [CLS], end
    with [SEP], and are cut at the size's max_length. What was made of the files of
    ``$RANKBOOK_DATA`` is kept in ``$RANKBOOK_CACHE``, and read again without tokenizing.

    Raises ImportError without ``datasets`` and ``transformers``, ValueError if there are fewer
    rows or the vocabulary is larger than the model's, and what `rankbook.data.imdb` raises.
    """
    return _kept(size) or _keep(_tokenise(size), size)


def _tokenise(size: Size) -> dict[str, Reviews]:
    tokenizer, texts = distilbert_tokenizer(), cast(Any, imdb())
    source = f"{texts.source}\n{tokenizer.source}"
    if len(tokenizer) > size.model.vocab_size:
        raise ValueError(
            f"the tokenizer has a vocabulary of {len(tokenizer)}, and the model one of "
            f"{size.model.vocab_size}; make the model's as large"
        )
    splits = {}
    for name, count in size.splits.items():
        if count > len(texts[name]):
            raise ValueError(f"IMDB's split {name} has {len(texts[name])} reviews, not {count}")
        rows = texts[name].select(range(count))
        ids = _ids(tokenizer, rows, size.max_length)
        splits[name] = Reviews.of(ids, rows["label"][:], len(tokenizer), source)
    return splits


def _ids(tokenizer, rows, max_length: int) -> Iterator[Tensor]:
    """The ids of each text, cut at `max_length`."""
    for start in range(0, len(rows), AT_A_TIME):
        texts = rows[start : start + AT_A_TIME]["text"]
        for ids in tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]:
            yield torch.tensor(ids, dtype=torch.int32)


def _kept(size: Size) -> dict[str, Reviews] | None:
    """The splits that `_keep` kept for `size`; None without, or if the file is damaged."""
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


def _keep(splits: dict[str, Reviews], size: Size) -> dict[str, Reviews]:
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
