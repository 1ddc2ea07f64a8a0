"""Proofs that can fail: the same outcome as float64's, on a model for which every token matters.

A fresh model hardly uses its attention: without it, its losses move by less than any tolerance. So
`trained` teaches one a question that only attention and positions answer, and a wrong variant
(`rankbook.speed.sabotage`) must be `caught` by the very assertion that a right one passes.
"""

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rankbook.models.classifier import Classifier, ClassifierConfig
from rankbook.speed.batches import Batch, make_batch
from rankbook.speed.precision import autocast, matmuls
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size

# half the distance from 1 to the next number: the largest relative error of one rounding
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11,
            "fp16": 2.0**-11, "bf16": 2.0**-8}  # fmt: skip
AROUND, IN_A_LAYER = 6, 18  # roundings in a row, forward: embedding and head; each layer
LONGEST_SUM = 2**16  # numbers, where a batch is not named: more tokens than any batch of the book
AMPLIFIED = 4.0  # a softmax amplifies an error of its scores by their size, a difference its own
TEXTS, RATE = 48, 3e-3  # of a step of `trained`


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a batch gives: mean loss, logits (rows, classes), gradients by parameter; float64."""

    loss: float
    logits: Tensor
    gradients: dict[str, Tensor]


@dataclass(frozen=True)
class Distance:
    """How far an outcome is from its control, relative to it; `gradients` by parameter.

    Norms, not single numbers. A gradient is measured against its own norm, or against the root
    mean square of all parameters' norms if that is larger: that of a key's bias is zero, whatever
    the weights, and has no relative error.
    """

    loss: float
    logits: float
    gradients: dict[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, float]:
        """All of them by name, in the order in which `check` looks at them."""
        return {"loss": self.loss, "logits": self.logits} | {
            f"gradient of {name}": value for name, value in self.gradients.items()
        }

    @property
    def worst(self) -> tuple[str, float]:
        """What is farthest off, and how far; what is not a number counts as farthest."""
        return max(self.parts.items(), key=lambda part: _size(part[1]))


def trained(size: Size, reviews: Reviews, *, steps: int = 120, seed: int = 0) -> Classifier:
    """A model of `size` that attends to a text's last token, and to where it stands: a copy.

    In some seconds it learns whether a text has an even or an odd number of tokens, from reviews
    cut short at random. Only the last token, [SEP], and its position tell. So hiding that token,
    attending to other texts or counting positions on changes all outcomes of a batch with odd
    and even lengths. In evaluation mode, without dropout; made once a process for the same
    arguments.
    """
    return copy.deepcopy(_trained(size.model, reviews, steps, seed))


@functools.lru_cache(maxsize=8)
def _trained(config: ClassifierConfig, reviews: Reviews, steps: int, seed: int) -> Classifier:
    generator = torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        model = Classifier(config, attention="sdpa").initialise(seed).eval()  # no dropout
        adam = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
        for step in range(steps):
            adam.param_groups[0]["lr"] = RATE * min(1, (step + 1) / 10) * (1 - step / steps)
            batch = make_batch(_cut(reviews, generator), list(range(TEXTS)), "packed")
            adam.zero_grad()
            F.cross_entropy(model(*batch.inputs), batch.labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
        adam.zero_grad()
    return model


def _cut(reviews: Reviews, generator: torch.Generator) -> Reviews:
    """Random beginnings of random reviews, each with its last token; labels: 1 if odd.

    Short ones are as likely as long ones: there the last token is one of few, and easily found.
    """
    texts, labels = [], []
    for sample in torch.randint(len(reviews), (TEXTS,), generator=generator).tolist():
        text, share = reviews.text(sample), torch.rand((), generator=generator).item()
        length = min(len(text), int(3 * (max(len(text), 3) / 3) ** share))
        texts.append(torch.cat([text[: length - 1], text[-1:]]))
        labels.append(length % 2)
    return Reviews.of(texts, labels, reviews.vocabulary)


def control(model: Classifier, batch: Batch) -> Outcome:
    """`outcome` in float64, on the CPU, in the plain way: padded, attention written out."""
    plain = copy.deepcopy(model).cpu().double()
    plain.attention, plain.checkpointing = "eager", False
    return outcome(plain, padded(batch.to("cpu")))


def padded(batch: Batch) -> Batch:
    """The same texts, padded to the longest of the batch; a padded batch as it is."""
    if batch.offsets is None:
        return batch
    lengths = batch.offsets.diff()
    texts = batch.ids.split(lengths.tolist())
    ids = nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    return Batch(ids, batch.labels, batch.samples, ids.shape[1], batch.tokens, mask)


def outcome(
    model: Classifier,
    batch: Batch,
    *,
    precision: str = "float32",
    forward: Callable[..., Tensor] | None = None,
    scale: float = 1.0,
) -> Outcome:
    """Loss, logits and gradients of `batch`, on the model's device; the model stays as it was.

    precision: "float32" (the weights' own format), "tf32", "fp16", "bf16", or "float64": a copy
    of the model in that format, on the same path as the others. There next to nothing is rounded,
    so what is off is a mistake. forward: what is called in the model's place, as its compiled
    form. scale: what the loss is multiplied by before the backward pass, and the gradients divided
    by after it, as a scaler does for "fp16". Raises ValueError for a forward in float64.
    """
    if precision == "float64":
        if forward is not None:
            raise ValueError("float64 runs a copy of the model; it can't call another's `forward`")
        model = copy.deepcopy(model).double()
    parameters = dict(model.named_parameters())
    device = next(iter(parameters.values())).device
    batch, mode = batch.to(device), model.training
    try:
        model.eval()  # dropout draws other numbers for other shapes
        with torch.enable_grad(), matmuls(precision):
            with autocast(precision, device):
                logits = (forward or model)(*batch.inputs)
            logits = logits if logits.dtype == torch.float64 else logits.float()
            loss = F.cross_entropy(logits, batch.labels)
            gradients = torch.autograd.grad(
                loss * scale, list(parameters.values()), allow_unused=True, materialize_grads=True
            )
    finally:
        model.train(mode)
    by_name = zip(parameters, gradients, strict=True)
    return Outcome(
        loss.item(),
        _exact(logits),
        {name: _exact(gradient) / scale for name, gradient in by_name},
    )


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    """What a backward pass left in `model`, as an `Outcome` has it; zeros where nothing is."""
    return {
        name: _exact(torch.zeros_like(p) if p.grad is None else p.grad)
        for name, p in model.named_parameters()
    }


def off(found: Outcome, right: Outcome) -> Distance:
    """How far `found` is from the control `right`. Raises ValueError for other parameters."""
    if found.gradients.keys() != right.gradients.keys():
        other = sorted(found.gradients.keys() ^ right.gradients.keys())
        raise ValueError(f"the two outcomes have gradients of different parameters: {other}")
    norms = torch.stack([gradient.norm() for gradient in right.gradients.values()])
    usual = norms.square().mean().sqrt().item()
    return Distance(
        abs(found.loss - right.loss) / abs(right.loss),
        _distance(found.logits, right.logits),
        {n: _distance(found.gradients[n], g, usual) for n, g in right.gradients.items()},
    )


def allowed(precision: str, config: ClassifierConfig, tokens: int = LONGEST_SUM) -> float:
    """How far rounding alone may take an outcome in `precision` from float64's, as `off` gives it.

    A number on its way through the model and back is rounded ``2 * (6 + 18 * layers)`` times in
    a row, by the format's unit roundoff u at most. Such errors have either sign, and n of them
    add up to about sqrt(n) u. Sums are in 32 bits, and the longest, a weight's gradient, is one
    over all `tokens` of the batch, or else over a layer's width: each adds the root of its length
    in roundings of float32. Both times 4 for what is amplified on the way. tokens: of the batch,
    padding included; without it, more than any batch of the book has, and so a wider limit.
    Source: https://doi.org/10.1137/18M1226312 (Higham and Mary). Raises ValueError for an unknown
    precision.
    """
    if precision not in ROUNDOFF:
        raise ValueError(f"precision {precision!r} is unknown; use one of {', '.join(ROUNDOFF)}")
    rows = math.sqrt(2 * (AROUND + IN_A_LAYER * config.layers))
    longest = max(tokens, config.d_model, config.d_hidden)
    summed = ROUNDOFF["float64" if precision == "float64" else "float32"] * math.sqrt(longest)
    return AMPLIFIED * rows * (ROUNDOFF[precision] + summed)


def check(
    found: Outcome,
    right: Outcome,
    precision: str,
    config: ClassifierConfig,
    tokens: int = LONGEST_SUM,
) -> Distance:
    """Assert that `found` is the control `right`, as far as `precision` can tell; the distance.

    tokens: as `allowed` takes them. Raises AssertionError with the first part that is off, and by
    how much.
    """
    distance, limit = off(found, right), allowed(precision, config, tokens)
    for what, value in distance.parts.items():
        if not value <= limit:  # NaN is not
            raise AssertionError(f"{what} off by {value:.1e}; {precision} allows {limit:.1e}")
    return distance


def caught(
    found: Outcome,
    right: Outcome,
    precision: str,
    config: ClassifierConfig,
    tokens: int = LONGEST_SUM,
) -> str:
    """What gives the wrong outcome `found` away: the words of `check`, with the same arguments.

    Raises AssertionError if nothing does: then `check` proves nothing either.
    """
    try:
        check(found, right, precision, config, tokens)
    except AssertionError as error:
        return str(error)
    raise AssertionError(f"not caught: {precision} allows what is off, so the proof is void")


@contextlib.contextmanager
def kept(model: nn.Module) -> Iterator[Mapping[str, Tensor]]:
    """Parameters and buffers as they were, again, at the end: for steps that only prove."""
    before = copy.deepcopy(model.state_dict())
    try:
        yield before
    finally:
        model.load_state_dict(before)


def _distance(found: Tensor, right: Tensor, least: float = 0.0) -> float:
    norm = max(right.norm().item(), least)
    return (found - right).norm().item() / norm if norm else found.norm().item()


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def _size(value: float) -> float:
    return math.inf if math.isnan(value) else value
