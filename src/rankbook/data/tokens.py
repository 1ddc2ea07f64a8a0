"""The tokens and ids of torchtext's ``basic_english``, by Hugging Face ``tokenizers``.

torchtext can no longer be loaded: its last release links against symbols that left PyTorch with
the old C++ ABI. The rules below were compared with torchtext 0.18 on text with awkward Unicode.
"""

import functools
from collections import Counter
from collections.abc import Iterable

from rankbook.data.sources import need

UNK = "<unk>"

# The order counts: an apostrophe is spaced out before a double quote vanishes and joins its sides.
RULES = (
    ("'", " '  "),
    ('"', ""),
    (".", " . "),
    ("<br />", " "),
    (",", " , "),
    ("(", " ( "),
    (")", " ) "),
    ("!", " ! "),
    ("?", " ? "),
    (";", " "),
    (":", " "),
)


def basic_english(text: str) -> list[str]:
    """Return the tokens that torchtext's ``basic_english`` tokenizer makes of `text`.

    Source: https://github.com/pytorch/text/blob/v0.18.0/torchtext/data/utils.py

    Two details decide on equality. Lower case is ``str.lower``, which knows the Greek final sigma;
    the Lowercase of ``tokenizers`` takes characters one by one and does not. Whitespace is that of
    ``str.split``, which includes U+001C to U+001F; Rust's does not.

    Raises ImportError when ``tokenizers`` is not installed.
    """
    return _punctuation().normalize_str(text.lower()).split()


@functools.cache
def _punctuation():
    """Return the rules as one normalizer of ``tokenizers``."""
    normalizers = need("tokenizers", "Splitting text into basic_english tokens").normalizers
    return normalizers.Sequence([normalizers.Replace(mark, spaced) for mark, spaced in RULES])


class Vocab(tuple):
    """Tokens by id: ``vocab[0]`` is ``"<unk>"``; ``vocab.id(token)`` and ``vocab.encode(text)``."""

    @classmethod
    def of(cls, tokens: Iterable[str]) -> "Vocab":
        """Return the vocabulary of `tokens`: ``<unk>``, then the rest, the most frequent first.

        Tokens of equal count stand in the order of their code points, as in torchtext's
        ``build_vocab_from_iterator(..., specials=["<unk>"])``.
        """
        counts = Counter(tokens)
        counts.pop(UNK, None)
        return cls([UNK, *sorted(counts, key=lambda token: (-counts[token], token))])

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self)}

    def id(self, token: str) -> int:
        """Return the id of `token`; of one that is not in the vocabulary, that of ``<unk>``: 0."""
        return self._ids.get(token, 0)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the ``basic_english`` tokens of `text`."""
        return [self.id(token) for token in basic_english(text)]
