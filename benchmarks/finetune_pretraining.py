"""A small model that has read IMDB: masked words guessed from those around them, on a CPU.

The objective is that of https://arxiv.org/abs/1810.04805, section 3.1, without its second task;
all that is masked becomes [MASK], and words that are rare in the training set are one word.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rankbook.models import Classifier
from rankbook.models.transformer import initialise
from rankbook.speed import Reviews, Size
from rankbook.speed.routes import body

PAD, UNKNOWN, CLS, MASK = 0, 1, 2, 3  # the new numbers of what is no word
OF_DISTILBERT = (0, 100, 101, 103)  # in its vocabulary: [PAD], [UNK], [CLS], [MASK]
MASKED = 0.15  # of the words of a piece


def fewer_words(splits: dict[str, Reviews], words: int) -> dict[str, Reviews]:
    """The same reviews with a vocabulary of `words`: the training set's most frequent ones."""
    seen = torch.bincount(splits["train"].ids, minlength=splits["train"].vocabulary)
    seen[list(OF_DISTILBERT)] = -1
    kept = seen.argsort(descending=True, stable=True)[: words - len(OF_DISTILBERT)]
    new = torch.full_like(seen, UNKNOWN)
    new[kept] = torch.arange(len(OF_DISTILBERT), words)
    new[list(OF_DISTILBERT)] = torch.arange(len(OF_DISTILBERT))
    return {
        name: Reviews(new[r.ids].int(), r.offsets, r.labels, words, r.source)
        for name, r in splits.items()
    }


def cut(reviews: Reviews, length: int) -> Reviews:
    """The first `length` ids of each review."""
    texts = (reviews.text(i)[:length] for i in range(len(reviews)))
    return Reviews.of(list(texts), reviews.labels, reviews.vocabulary, reviews.source)


def pieces(reviews: Reviews, length: int) -> Tensor:
    """All text of `reviews` in pieces (count, length), each beginning with [CLS]."""
    words = reviews.ids[reviews.ids != CLS].long()
    words = words[: len(words) // (length - 1) * (length - 1)].view(-1, length - 1)
    return F.pad(words, (1, 0), value=CLS)


def new(size: Size, seed: int) -> Classifier:
    """A model of `size` that has learnt nothing.

    Its weights are as large as its width asks for: with DistilBERT's 0.02, which suits a width of
    768, a narrow model learns for long no more than how frequent each word is.
    """
    model = Classifier(size.model, attention="sdpa")
    initialise(model, seed)
    return model


class Guesser(nn.Module):
    """A classifier's body, and a head that guesses words; its last matrix is the embedding."""

    def __init__(self, model: Classifier):
        super().__init__()
        self.model, width = model, model.config.d_model
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(model.config.vocab_size))

    def forward(self, ids: Tensor, masked: Tensor) -> Tensor:
        """The mean loss () of the words at `masked` (rows, length), which are hidden first."""
        hidden = body(self.model, ids.masked_fill(masked, MASK))
        embedding = self.model.distilbert["embeddings"].word_embeddings.weight
        logits = F.linear(self.transform(hidden[masked]), embedding, self.bias)
        return F.cross_entropy(logits, ids[masked])


@dataclass(frozen=True)
class Read:
    """What the reading was: steps, tokens, seconds, and the loss of its first and last tenth."""

    steps: int
    tokens: int
    seconds: float
    first: float
    last: float


def pretrain(
    size: Size,
    texts: Tensor,
    steps: int,
    rows: int = 64,
    lr: float = 1e-3,
    say: Callable[[str], None] = print,
) -> tuple[Classifier, Read]:
    """A model of `size` that has guessed in `steps` batches of `rows` pieces; its head is new."""
    model = new(size, seed=0)
    guesser = Guesser(model)
    adam = torch.optim.AdamW(guesser.parameters(), lr=lr, weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, lr, total_steps=steps, pct_start=0.1)
    random = torch.Generator().manual_seed(0)
    losses, begin = [], time.perf_counter()
    order = torch.cat([torch.randperm(len(texts), generator=random) for _ in range(9)])
    for step in range(steps):
        ids = texts[order[step * rows : (step + 1) * rows]]
        masked = (torch.rand(ids.shape, generator=random) < MASKED) & (ids > MASK)
        adam.zero_grad()
        loss = guesser(ids, masked)
        loss.backward()
        nn.utils.clip_grad_norm_(guesser.parameters(), 1.0)
        adam.step()
        rate.step()
        losses.append(loss.item())
        if step % 100 == 99:
            say(f"step {step + 1}: loss {sum(losses[-100:]) / 100:.3f}")
    tenth = max(1, steps // 10)
    ends = (sum(part) / tenth for part in (losses[:tenth], losses[-tenth:]))
    seconds = time.perf_counter() - begin
    return model, Read(steps, steps * rows * texts.shape[1], seconds, *ends)
