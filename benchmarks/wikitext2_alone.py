"""The trainings of benchmarks/wikitext2.py without a pipeline: one process, plain loops.

The reference is another's model, with its own initial values; the recipes are the original's, in
which one thing after the other is changed. None of the book's models or training loops is used.
"""

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from rankbook.data import wikitext2
from rankbook.models.transformer import sinusoids
from rankbook.training.batches import batchify, training_batch, windows

ROWS, WINDOW, CLIP, LOG_EVERY = 40, 35, 0.5, 12
WIDTH, HIDDEN, HEADS, LAYERS = 64, 256, 4, 8  # of preset "tiny"
ORIGINAL = {"norm": "post", "dropout": 0.2, "optimizer": "SGD", "schedule": "StepLR",
            "start": "original"}  # fmt: skip
# a row keeps the changes before it; AdamW has its own rate, pre-norm one more norm at the end
CHANGES = (
    ("the original's", {}),
    ("no dropout", {"dropout": 0.0}),
    ("pre-norm", {"norm": "pre"}),
    ("AdamW", {"optimizer": "AdamW", "schedule": "constant"}),
    ("warm-up, then 1/sqrt", {"schedule": "warm-up"}),
    ("unigram start", {"start": "unigram"}),
)
RATES = {"SGD": 5.0, "AdamW": 6e-3}
WARM_UP = 20


class Encoder(nn.Module):
    """torch's own encoder layers as a language model: ids (batch, length) to logits.

    norm: "post", as in the original, or "pre", with one more after the last layer. start:
    "original", matrices of the two ends uniform within 0.1; or "unigram", the head's bias at the
    logarithm of the words' `frequencies` (vocabulary) and its matrix a tenth of that.
    """

    def __init__(self, frequencies: torch.Tensor, norm: str, dropout: float, start: str):
        super().__init__()
        words, first = len(frequencies), norm == "pre"
        self.embedding, self.head = nn.Embedding(words, WIDTH), nn.Linear(WIDTH, words)
        layer = partial(
            nn.TransformerEncoderLayer,
            WIDTH, HEADS, HIDDEN, dropout, batch_first=True, norm_first=first,
        )  # fmt: skip
        last = nn.LayerNorm(WIDTH) if first else None
        self.layers = nn.TransformerEncoder(layer(), LAYERS, last, enable_nested_tensor=False)
        # that has copied one layer's values; the original makes each layer anew
        self.layers.layers = nn.ModuleList(layer() for _ in range(LAYERS))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(WINDOW, WIDTH))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(WINDOW))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.head.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)
        if start == "unigram":
            with torch.no_grad():
                self.head.weight.mul_(0.1)
                self.head.bias.copy_(frequencies.log())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        x = self.embedding(ids) * math.sqrt(WIDTH) + self.positions[:length]
        mask = self.mask[:length, :length]
        return self.head(self.layers(self.dropout(x), mask=mask, is_causal=True))


class Reference(nn.Module):
    """transformers' GPT-2 of the same width, depth, heads and vocabulary; nothing is downloaded."""

    def __init__(self, words: int):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=words, n_positions=WINDOW, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
            n_inner=HIDDEN, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            tie_word_embeddings=False, bos_token_id=0, eos_token_id=0, use_cache=False,
        )  # fmt: skip
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids).logits


def recipe(name: str) -> dict:
    """The recipe after the change called `name` and all before it. Raises KeyError."""
    found = dict(ORIGINAL)
    for change, values in CHANGES:
        found |= values
        if change == name:
            return found
    raise KeyError(name)


def rate(step: int, options: dict) -> float:
    """The learning rate of optimizer step `step`, from 0."""
    peak = RATES[options["optimizer"]]
    if options["schedule"] == "constant":
        return peak
    if options["schedule"] == "StepLR":
        return peak * 0.95 ** (step // 50)  # the original calls 50 batches an epoch
    return peak * min((step + 1) / WARM_UP, math.sqrt(WARM_UP / (step + 1)))


def train_alone(
    name: str, steps: int, every: int, batches: int | None, log: Path, text=None, seed: int = 0
) -> None:
    """Train what is called `name`, "reference" or a change; write its losses to `log`.

    steps: optimizer steps. every: steps between validations, on `batches` (None: all). text: a
    corpus, WikiText-2 unless given. seed: of the initial values and of dropout. A training that
    gives no number is noted and ended.
    """
    corpus = text or wikitext2()
    words = len(corpus.vocab)
    torch.manual_seed(seed)
    if name == "reference":
        options = ORIGINAL | {"optimizer": "AdamW", "schedule": "warm-up"}
        model = Reference(words)
    else:
        options = recipe(name)
        counts = torch.bincount(corpus.train, minlength=words) + 1
        parts = {key: options[key] for key in ("norm", "dropout", "start")}
        model = Encoder(counts / counts.sum(), **parts)
    with log.open("w", encoding="utf-8", buffering=1) as file:
        size = sum(p.numel() for p in model.parameters())
        print(json.dumps({"start": {"parameters": size, "data": corpus.source}}), file=file)
        for record in records(model, corpus, options, steps, every, batches):
            print(json.dumps(record, allow_nan=False), file=file)


def records(model, corpus, options: dict, steps: int, every: int, batches) -> Iterator[dict]:
    """What is noted of the training: {"step", "loss"} and {"step", "valid_loss"}, in nats."""
    kind = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}[options["optimizer"]]
    optimizer = kind(model.parameters(), lr=1.0)
    rows = batchify(corpus.train, ROWS)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options)
        tokens, targets = training_batch(rows, step, WINDOW)
        loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            yield {"step": step + 1, "ended": f"the loss is {losses[-1]}"}
            return
        if (step + 1) % LOG_EVERY == 0 or step + 1 == steps:
            yield {"step": step + 1, "loss": sum(losses) / len(losses)}
            losses = []
        if (step + 1) % every == 0 or step + 1 == steps:
            yield {"step": step + 1, "valid_loss": validate(model, corpus.valid, batches)}


@torch.no_grad()
def validate(model: nn.Module, ids: torch.Tensor, batches: int | None) -> float:
    """The mean loss of a token of `ids`, or of the first `batches` of it, without dropout."""
    model.eval()
    total, tokens = 0.0, 0
    for inputs, targets in windows(batchify(ids, ROWS), WINDOW, batches):
        logits = model(inputs).flatten(0, 1)
        total += cross_entropy(logits, targets.flatten(), reduction="sum").item()
        tokens += targets.numel()
    model.train()
    return total / tokens
