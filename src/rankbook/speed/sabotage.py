"""Attention made wrong in one point each, while a ``with`` block lasts: proofs must notice.

Made for eager models; what was compiled before keeps the attention that it was compiled with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from rankbook.models import classifier
from rankbook.models.attention import Sequences


def without_values():
    """Attention that returns zeros: no token learns anything of the others."""
    return _attending(lambda attend, q, k, v, *others: torch.zeros_like(v))


def mask_shifted():
    """Boundaries one token early: a text's last token is hidden, or read by the next text."""
    return _attending(lambda attend, q, k, v, texts, *o: attend(q, k, v, _shifted(texts), *o))


def boundaries_ignored():
    """Tokens attend to all that is in their row: other texts if it is packed, else its padding."""
    return _attending(lambda attend, q, k, v, texts, *o: attend(q, k, v, _joined(texts), *o))


@contextmanager
def positions_not_restarted() -> Iterator[None]:
    """Positions of packed texts count on from one to the next, as far as the longest text goes."""
    packed = Sequences.packed

    def counted(ids: Tensor, offsets: Tensor, longest: int) -> Sequences:
        positions = torch.arange(ids.shape[0], device=ids.device) % longest
        return packed(ids, offsets, longest)._replace(positions=positions)

    with patch.object(Sequences, "packed", counted):
        yield


SABOTAGES: dict[str, Callable] = {
    "without values": without_values,
    "mask shifted by one": mask_shifted,
    "boundaries ignored": boundaries_ignored,
    "positions not restarted": positions_not_restarted,  # of packed texts; padded ones have no such
}


@contextmanager
def gelu_by_tanh() -> Iterator[None]:
    """GELU by its approximation, which other libraries use: off in the fourth digit."""
    exact = F.gelu
    with patch.object(F, "gelu", lambda x: exact(x, approximate="tanh")):
        yield


def scores_too_large():
    """Attention's scores are 1% too large: a scale that was mistyped."""
    return _attending(lambda attend, q, *others: attend(1.01 * q, *others))


@contextmanager
def norm_with_usual_epsilon() -> Iterator[None]:
    """LayerNorm with PyTorch's epsilon, 1e-5, instead of the model's 1e-12."""
    norm = F.layer_norm

    def usual(x: Tensor, shape: list[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        return norm(x, shape, weight, bias, 1e-5)

    with patch.object(F, "layer_norm", usual):
        yield


# too small for bf16 to tell from rounding
SUBTLE: dict[str, Callable] = {
    "GELU by tanh": gelu_by_tanh,
    "scores 1% too large": scores_too_large,
    "epsilon of 1e-5": norm_with_usual_epsilon,
}


@contextmanager
def _attending(how: Callable[..., Tensor]) -> Iterator[None]:
    right = classifier.attend

    def wrong(*arguments) -> Tensor:
        return how(right, *arguments)

    with patch.object(classifier, "attend", wrong):
        yield


def _shifted(texts: Sequences) -> Sequences:
    if texts.offsets is None:
        if texts.mask is None:
            raise ValueError("mask_shifted: this batch has no mask to shift; give it padding")
        return texts._replace(mask=texts.mask.roll(-1, dims=1))
    inner = texts.offsets[1:-1] - 1
    return _of(texts, torch.cat([texts.offsets[:1], inner, texts.offsets[-1:]]), texts.longest + 1)


def _joined(texts: Sequences) -> Sequences:
    if texts.offsets is None:
        return texts._replace(mask=None)
    return _of(texts, texts.offsets[[0, -1]], len(texts.positions))


def _of(texts: Sequences, offsets: Tensor, longest: int) -> Sequences:
    """`texts` with other boundaries; attention takes positions and rows from them only."""
    ids = texts.positions  # only its shape and device count
    return Sequences.packed(ids, offsets, longest)
