"""What the ranks do in test_context.py: attention over sequences cut among them, and a model."""

from functools import partial

import torch
import torch.distributed as dist
from torch.nn import functional as F

from rankbook.comm.counts import Sent
from rankbook.comm.traffic import traffic
from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.context import attention_bytes, heads_attention, ring_attention, shard
from rankbook.parallel.context import travel as travelling
from rankbook.parallel.mesh.sequence import context_parallel
from rankbook.parallel.trials import try_layout

METHODS = {"ring": ring_attention, "heads": heads_attention}
BATCH, HEADS, D_HEAD = 2, 8, 4
PER_RANK = 4  # tokens: a stretch of two early ones, and one of two late ones


def random(*shape: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def packed(length: int) -> torch.Tensor:
    """Two rows of texts of unequal lengths, some longer than a rank's part: (2, length)."""
    place = torch.arange(length)
    three = (place > length // 3).long() + (place > 2 * length // 3).long()
    return torch.stack([three, (place >= length - 3).long()])


def whole(inputs: list[torch.Tensor], grad: torch.Tensor, documents: torch.Tensor | None):
    """The result and the gradients of q, k, v in one process, in float64."""
    q, k, v = (x.double().clone().requires_grad_() for x in inputs)
    mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
    if documents is not None:
        rows = documents if documents.dim() == 2 else documents[None]
        mask = mask & (rows[:, None, :, None] == rows[:, None, None, :])
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y.backward(grad.double())
    return [y.detach(), q.grad, k.grad, v.grad]


def attend(dtype: torch.dtype) -> dict[str, list[float]]:
    """By method, order and documents: the errors of y and of q's, k's, v's gradients.

    Each relative to the largest number of what is right.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape = BATCH, HEADS, ranks * PER_RANK, D_HEAD
    *inputs, grad = (random(*shape, seed=seed, dtype=dtype) for seed in range(4))
    texts = packed(shape[2])
    found = {}
    for what, documents in (("one text", None), ("packed", texts), ("one row for all", texts[0])):
        right = whole(inputs, grad, documents)
        for name, attention in METHODS.items():
            for order in ("blocks", "zigzag"):
                mine = partial(shard, ranks=ranks, rank=rank, order=order, dim=2)
                here = [mine(x).requires_grad_() for x in inputs]
                y = attention(*here, None, order, documents)
                assert y.dtype == dtype
                y.backward(mine(grad))
                pairs = zip([y.detach(), *(x.grad for x in here)], right, strict=True)
                errors = [off(a, mine(b), b) for a, b in pairs]
                found[f"{name}, {order}, {what}"] = errors
    return found


def off(found: torch.Tensor, right: torch.Tensor, largest: torch.Tensor) -> float:
    """The largest error of `found`, relative to the largest number of `largest`."""
    return ((found.double() - right).abs().max() / largest.abs().max()).item()


CONFIG = TransformerConfig(64, d_model=32, d_hidden=64, heads=8, layers=2, max_length=32)


def train(method: str) -> dict[str, float]:
    """The error of each gradient of a TransformerLM, relative to the largest of all."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    text = torch.randint(64, (2, 33), generator=torch.Generator().manual_seed(0))
    tokens, targets = text[:, :-1], text[:, 1:]
    model, right = (TransformerLM(CONFIG) for _ in range(2))
    for each in (model, right):
        initialise(each, 0)
    context_parallel(model, dist.group.WORLD)
    if method == "heads":
        for layer in model.layers.values():
            layer.attention = lambda q, k, v, dropout: heads_attention(q, k, v)
    token_loss(right(tokens), targets).backward()
    mine = partial(shard, ranks=ranks, rank=rank)
    token_loss(model(mine(tokens)), mine(targets)).backward()
    largest = max(p.grad.abs().max() for p in right.parameters())
    errors = {}
    for (name, p), expected in zip(model.named_parameters(), right.parameters(), strict=True):
        dist.all_reduce(p.grad)
        errors[name] = ((p.grad / ranks - expected.grad).abs().max() / largest).item()
    return errors


def count(dtype: torch.dtype) -> dict[str, list[int]]:
    """By method and part: the bytes that were sent, and those of the formula."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape = BATCH, HEADS, ranks * PER_RANK, D_HEAD
    itemsize = torch.empty((), dtype=dtype).element_size()
    sizes = ranks, shape[2], HEADS * D_HEAD, BATCH, itemsize
    found = {}
    for method, attention in METHODS.items():
        here = [shard(random(*shape, seed=s, dtype=dtype), ranks, rank, dim=2) for s in range(3)]
        with traffic() as forward:
            y = attention(*(x.requires_grad_() for x in here))
        with traffic() as backward:
            y.sum().backward()
        for part, counted in (("forward", forward), ("backward", backward)):
            found[f"{method} {part}"] = [
                on_the_wire(counted),
                attention_bytes(method, *sizes, part=part),
            ]
    return found


def on_the_wire(counted: Sent) -> int:
    """All that went to other ranks."""
    return round(counted.total().ring)


def subgroups() -> list[float]:
    """The errors of a ring of every other rank, while the rest have a ring of their own."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(range(first, ranks, 2)) for first in (0, 1)]
    group = groups[rank % 2]
    n, mine = ranks // 2, rank // 2
    shape = BATCH, HEADS, n * PER_RANK, D_HEAD
    dtype = torch.float32
    *inputs, grad = (random(*shape, seed=rank % 2 * 10 + s, dtype=dtype) for s in range(4))
    right = whole(inputs, grad, None)
    here = [shard(x, n, mine, dim=2).requires_grad_() for x in inputs]
    y = ring_attention(*here, group)
    y.backward(shard(grad, n, mine, dim=2))
    pairs = zip([y.detach(), *(x.grad for x in here)], right, strict=True)
    return [off(a, shard(b, n, mine, dim=2), b) for a, b in pairs]


def together() -> list[list[bool]]:
    """Of each call of batch_isend_irecv: which of its messages are sends, and to others only."""
    calls, real = [], dist.batch_isend_irecv

    def noted(ops):
        assert all(op.peer != dist.get_rank() for op in ops)
        calls.append([op.op is dist.isend for op in ops])
        return real(ops)

    travelling.dist.batch_isend_irecv = noted
    try:
        attend(torch.float32)
    finally:
        travelling.dist.batch_isend_irecv = real
    return calls


def refused() -> list[str]:
    """What is said of arguments that cannot be, on every rank alike."""
    ranks = dist.get_world_size()

    def x(heads: int, here: int) -> torch.Tensor:
        return torch.zeros(1, heads, here, 4)

    tries = [
        lambda: ring_attention(x(8, 3), x(8, 3), x(8, 3)),
        lambda: ring_attention(x(8, 4), x(4, 4), x(4, 4)),
        lambda: heads_attention(x(ranks + 1, 4), x(ranks + 1, 4), x(ranks + 1, 4)),
        lambda: ring_attention(*[x(8, 4)] * 3, None, "zigzag", torch.zeros(4, dtype=torch.long)),
        lambda: ring_attention(*[x(8, 4)] * 3, None, "striped"),
    ]
    said = []
    for each in tries:
        try:
            each()
        except ValueError as error:
            said.append(str(error))
    return said


def without_experts() -> str:
    """What is said of a layout with experts, where the model has none."""
    try:
        try_layout("ep=2", "all_reduce")
    except ValueError as error:
        return str(error)
    return ""
