"""Film reviews as token ids, made once: flat, so that 50,000 of them are a few large arrays."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rankbook.data import distilbert_tokenizer, embedded, imdb
from rankbook.speed.sizes import Size

AT_A_TIME = 1000  # texts to tokenise: as Python's numbers, all 50,000 would take half a gigabyte
CLS, SEP, FIRST_WORD = 2, 3, 5  # the ids that `made_up` uses, as in this book's own vocabulary


@dataclass(frozen=True, eq=False)
class Reviews:
    """One split: ids (tokens,) int32, one text after the other, and labels (samples,) int64.

    offsets (samples + 1,) int64: where each text begins, and the last one ends. vocabulary: how
    many ids there are. source: where all this came from, in a line or two.
    """

    ids: Tensor
    offsets: Tensor
    labels: Tensor
    vocabulary: int
    source: str = ""
    lengths: Tensor = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "lengths", self.offsets.diff())

    @classmethod
    def of(
        cls,
        texts: Iterable[Sequence[int] | Tensor],
        labels: Sequence[int] | Tensor,
        vocabulary: int,
        source: str = "",
    ) -> "Reviews":
        """The reviews whose ids are `texts`."""
        ids = [torch.as_tensor(text, dtype=torch.int32) for text in texts]
        offsets = torch.tensor([0, *(len(text) for text in ids)]).cumsum(0)
        return cls(torch.cat(ids), offsets, torch.as_tensor(labels), vocabulary, source)

    def __len__(self) -> int:
        return len(self.labels)

    def text(self, sample: int) -> Tensor:
        """The ids of one review: (length,) int32."""
        return self.ids[self.offsets[sample] : self.offsets[sample + 1]]

    def first(self, count: int) -> "Reviews":
        """The first `count` reviews. Raises ValueError if there are fewer."""
        if not 1 <= count <= len(self):
            raise ValueError(f"there are {len(self)} reviews, not {count}")
        offsets = self.offsets[: count + 1]
        return replace(
            self, ids=self.ids[: offsets[-1]], offsets=offsets, labels=self.labels[:count]
        )


def tokenised(size: Size) -> dict[str, Reviews]:
    """IMDB's splits "train", "validation" and "test", the first rows of each, for `size`.

    Texts are as `rankbook.data.imdb` gives them, with their ``<br />``; ids begin with [CLS], end
    with [SEP], and are cut at the size's max_length. What was made of the files of
    ``$RANKBOOK_DATA`` is kept in ``$RANKBOOK_CACHE``, and read again without tokenizing.

    Raises ImportError without ``datasets`` and ``transformers``, ValueError if there are fewer
    rows or the vocabulary is larger than the model's, and what `rankbook.data.imdb` raises.
    """
    from rankbook.speed import token_file  # it imports this module

    return token_file.kept(size) or token_file.keep(_tokenise(size), size)


def _tokenise(size: Size) -> dict[str, Reviews]:
    tokenizer, texts = distilbert_tokenizer(), imdb()
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


def made_up(count: int, size: Size, seed: int = 0) -> Reviews:
    """Reviews of random ids, of IMDB's lengths, without tokenizer and files: for tests.

    Labels can be learnt: every tenth token, about, is one of two that tell them. The same for
    the same arguments on every machine.
    """
    import numpy

    generator = torch.Generator().manual_seed(seed)
    places = torch.rand(count, generator=generator).numpy()
    # with punctuation, a word of IMDB makes 1.3 tokens
    lengths = (1.3 * numpy.interp(places, embedded.SHORTER, embedded.WORDS)).astype(int)
    labels = torch.randint(2, (count,), generator=generator)
    texts = []
    for length, label in zip(lengths, labels, strict=True):
        words = min(int(length), size.max_length - 2)
        ids = torch.randint(FIRST_WORD + 2, size.model.vocab_size, (words,), generator=generator)
        ids[torch.rand(words, generator=generator) < 0.1] = FIRST_WORD + label
        texts.append([CLS, *ids.tolist(), SEP])
    return Reviews.of(texts, labels, size.model.vocab_size, "random ids of IMDB's lengths")
