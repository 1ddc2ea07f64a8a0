"""WikiText-2 as one long row of token ids for each split, as the first original makes it."""

import hashlib
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from rankbook.core.atomic import write_atomic
from rankbook.data import embedded, hub
from rankbook.data.sources import cache_folder, local_files, search
from rankbook.data.tokens import RULES, Vocab, basic_english

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """Three splits as 1-D int64 tensors of ids into `vocab`; `source` says where they came from."""

    vocab: Vocab
    train: Tensor
    valid: Tensor
    test: Tensor
    source: str

    def common(self, words: int) -> "Corpus":
        """The same text with its `words` most common words; every other one is ``<unk>``.

        ``<unk>`` counts as one of them. Raises ValueError if there are fewer than two.
        """
        if words < 2:
            raise ValueError(f"words is {words}; it must be 2 or more")
        ids = {split: getattr(self, split) for split in SPLITS}
        ids = {split: old * (old < words) for split, old in ids.items()}  # the id of <unk> is 0
        return replace(self, vocab=Vocab(self.vocab[:words]), **ids)


def wikitext2() -> Corpus:
    """Return WikiText-2: the vocabulary of its train split and the ids of all three splits.

    Tokens are ``basic_english``; lines without a token vanish, the others are joined, and nothing
    marks their ends: the words carry no ``<eos>``. Source: Merity et al. 2016, arXiv:1609.07843.

    Searched in ``$RANKBOOK_DATA/wikitext-2``, on the Hugging Face hub, then replaced by English
    prose that every Python carries. The ids are kept in ``$RANKBOOK_CACHE`` (``~/.cache/rankbook``
    if unset), under a name made of the text's own checksum, so a changed text is never mixed up.

    Raises FileNotFoundError or ValueError for a half-present or changed folder, ImportError
    when ids have to be made and ``tokenizers`` is not installed.
    """
    texts, source = search("WikiText-2", _from_folder, _from_hub, _from_python)
    path = cache_folder() / f"wikitext-2-{_fingerprint(texts)}.pt"
    vocab, ids = _load(path) or _load_or_make(texts, path)
    return Corpus(vocab, *(ids[split].long() for split in SPLITS), source=source)


def wikitext2_text(split: str) -> str:
    r"""Return one split of WikiText-2 as text, with its blank lines; lines end with ``\n``.

    split: "train", "valid" or "test". Searched where `wikitext2` searches. Raises ValueError for
    another split, FileNotFoundError or ValueError for a half-present or changed folder.
    """
    if split not in SPLITS:
        raise ValueError(f"WikiText-2 has no split {split!r}, only {', '.join(SPLITS)}")
    texts, _ = search("WikiText-2", _from_folder, _from_hub, _from_python)
    return texts[split]


def _from_folder() -> tuple[dict[str, str], str]:
    files, where = local_files("wikitext-2")
    return {split: files[f"{split}.txt"].decode() for split in SPLITS}, where


def _from_hub() -> tuple[dict[str, str], str]:
    dataset, where = hub.dataset("Salesforce/wikitext", "wikitext-2-v1")
    names = ("train", "validation", "test")
    texts = ("\n".join(dataset[name][:]["text"]) for name in names)
    return dict(zip(SPLITS, texts, strict=True)), where


def _from_python() -> tuple[dict[str, str], str]:
    return embedded.prose(), "English prose of this Python (pydoc_data.topics) in its place"


def _load_or_make(texts: dict[str, str], path: Path) -> tuple[Vocab, dict[str, Tensor]]:
    """Return what `path` keeps; where it keeps nothing, one process makes it, and others wait."""
    with _turn(path):
        return _load(path) or _make(texts, path)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """One process at a time, of those that ask for `path`; the system ends a killed one's turn.

    In a folder that cannot be written, or on a system without such locks, nobody waits.
    """
    lock = path.with_name(f".{path.name}.lock")
    with ExitStack() as stack:
        with suppress(ImportError, OSError, RuntimeError):
            import fcntl

            _make_folder(path)
            file = stack.enter_context(lock.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
            stack.callback(fcntl.flock, file, fcntl.LOCK_UN)  # for a forked child's copy as well
            # whoever waits has this file open; whoever comes later finds what is kept
            stack.callback(_remove, lock)
        yield


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


def _make_folder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def _make(texts: dict[str, str], path: Path) -> tuple[Vocab, dict[str, Tensor]]:
    """Return vocabulary and ids (int32) of `texts`, and keep them at `path` for the next rank."""
    tokens = {split: _tokens(text) for split, text in texts.items()}
    vocab = Vocab.of(tokens["train"])
    ids = {
        split: torch.tensor([vocab.id(token) for token in of_split], dtype=torch.int32)
        for split, of_split in tokens.items()
    }
    words = "\n".join(vocab)
    _save({"vocab": words, "check": _check(words, ids), **ids}, path)
    return vocab, ids


def _tokens(text: str) -> list[str]:
    """Return the tokens of all lines of `text`, joined; a line without any leaves no trace."""
    return [token for line in text.split("\n") for token in basic_english(line)]


def _fingerprint(texts: dict[str, str]) -> str:
    """Return a name for the ids of `texts`: of all that decides on them, nothing else."""
    digest = hashlib.sha256(repr((RULES, unicodedata.unidata_version)).encode())
    for split in SPLITS:
        digest.update(hashlib.sha256(texts[split].encode()).digest())
    return digest.hexdigest()[:24]


def _load(path: Path) -> tuple[Vocab, dict[str, Tensor]] | None:
    """Return what `path` keeps; None when it is not there or damaged: then it is made again."""
    try:
        kept = torch.load(path, weights_only=True)
        ids = {split: kept[split] for split in SPLITS}
        if kept["check"] == _check(kept["vocab"], ids):
            return Vocab(kept["vocab"].split("\n")), ids
    except Exception:  # torch.load meets a damaged file with half a dozen kinds of error
        pass
    return None


def _check(vocab: str, ids: dict[str, Tensor]) -> list[int]:
    """Return what changes with any flipped bit, which torch.load does not notice by itself."""
    return [zlib.crc32(vocab.encode()), *(int(ids[split].sum()) for split in SPLITS)]


def _save(content: dict, path: Path) -> None:
    """Write `content` to `path` in one step, so that ranks starting together see all or nothing.

    A folder that cannot be written to costs the next rank its two seconds, and is no error.
    """
    with suppress(OSError, RuntimeError):
        _make_folder(path)
        write_atomic(path, lambda file: torch.save(content, file))
