"""Film reviews as token ids: flat, so that 50,000 of them are a few large arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rankbook.data import embedded
from rankbook.speed.sizes import Size

CLS, SEP, FIRST_WORD = 2, 3, 5  # the ids that `synthetic` uses, as in this book's own vocabulary


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


def synthetic(count: int, size: Size, seed: int = 0) -> Reviews:
    """Reviews of random ids, of IMDB's lengths, without tokenizer and files: for tests.

    Labels can be learnt: every tenth token, about, is one of two that tell them. The same for
    the same arguments on every machine.
    """
    import numpy  # which a machine with torch alone need not have

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
