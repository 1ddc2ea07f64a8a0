"""What the ranks of test_accumulation.py do: several microbatches, sharded again after each."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from rankbook.comm.traffic import traffic
from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.mesh import Layout, build, stepping, train_step
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.mesh.stepping import accumulate
from rankbook.parallel.mesh.traffic_formula import predicted_traffic
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.recording import record_step
from rankbook.predict.memory.setup import Setup
from rankbook.programs.train_lm.options import read
from rankbook.programs.train_lm.run import make_part
from rankbook.training import seed_step

CONFIG = TransformerConfig(64, d_model=32, d_hidden=64, heads=4, layers=3, max_length=16)
LARGE = TransformerConfig(512, 128, 512, 4, 4, max_length=32)
CPU = torch.device("cpu")


def batch(rows: int, window: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets, alike on all ranks."""
    text = torch.randint(64, (rows, window + 1), generator=torch.Generator().manual_seed(1))
    return text[:, :-1], text[:, 1:]


def loop(name: str) -> AbstractContextManager:
    """The loop over microbatches: "ours", or a wrong one in its place.

    "pipelining" is torch's schedule of one stage, which shards again after the last microbatch.
    "no_sync" reduces with the last one only, as many loops do to save messages.
    """
    if name == "pipelining":
        return mock.patch.object(stepping, "_one_by_one", ShardedModel.step)
    if name == "no_sync":
        late = FSDPModule.set_requires_gradient_sync
        return mock.patch.object(FSDPModule, "set_requires_all_reduce", late)
    return nullcontext()


def between(part: ShardedModel, rows: int, name: str) -> list[tuple[int, int]]:
    """When each forward pass begins: whole parameters, and reduce_scatters since the last one."""
    (stage,) = part.modules.values()
    found: list[tuple[int, int]] = []
    with traffic(part.mesh) as sent, loop(name):

        def look(*_) -> None:
            whole = sum(not isinstance(p, DTensor) for p in stage.parameters())
            scattered = sum(m.operation == "reduce_scatter" for m in sent.messages)
            found.append((whole, scattered - sum(n for _, n in found)))

        hook = stage.register_forward_pre_hook(look, prepend=True)  # before FSDP2's own
        accumulate(part, *batch(rows, part.config.max_length))
        hook.remove()
    return found


def sharded_again(mesh: str, shard: str, microbatches: int, name: str) -> list[tuple[int, int]]:
    """`between` microbatches of a small model on a mesh."""
    part = build(CONFIG, Layout.parse(mesh, shard), CPU, microbatches=microbatches)
    return between(part, 24, name)


def as_printed(words: list[str], ranks: int) -> list[tuple[int, int]]:
    """`between` microbatches of what train_lm makes of a line that a plan prints."""
    options = read(words, ranks)
    return between(make_part(options, CPU, 64), options.batch, "ours")


def learned(mesh: str, shard: str, microbatches: int) -> dict[str, float]:
    """How far loss and gradients are from those of one process and one large batch."""
    whole = TransformerLM(CONFIG)
    initialise(whole, 0)
    tokens, targets = batch(24)
    right = token_loss(whole(tokens), targets)
    right.backward()
    part = build(CONFIG, Layout.parse(mesh, shard), CPU, microbatches=microbatches)
    loss = accumulate(part, tokens, targets)
    norm = torch.stack([p.grad.norm() for p in whole.parameters() if p.grad is not None]).norm()
    wanted, worst = dict(whole.named_parameters()), torch.zeros(())
    for name, parameter in part.named_parameters():
        mine, its = parameter.grad, wanted[name].grad
        assert mine is not None and its is not None
        mine = mine.full_tensor() if isinstance(mine, DTensor) else mine
        worst = torch.maximum(worst, (mine - its).norm() / norm)
    return {"loss": (loss / right - 1).abs().item(), "gradients": worst.item()}


def bitwise(microbatches: int) -> bool:
    """Whether replicas without FSDP2 get the bits of torch's schedule of one stage.

    With dropout, of which each forward pass takes its part of the random numbers, and in bf16.
    """
    got: list[list[torch.Tensor]] = []
    for name in ("ours", "pipelining"):
        config = replace(CONFIG, dropout=0.2)
        part = build(config, Layout(dp=2), CPU, microbatches=microbatches)
        optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)
        told: list[torch.Tensor] = []
        for step in range(4):
            seed_step(0, step, dist.get_rank())
            with loop(name), torch.autocast("cpu", torch.bfloat16, enabled=step % 2 == 1):
                told += train_step(part, optimizer, *batch(24), 0.5)
        got.append([*told, *(p.detach() for p in part.parameters())])
    return all(torch.equal(one, other) for one, other in zip(*got, strict=True))


def counted_and_foretold(rank_of: list[tuple[str, str, int]], rank: int) -> list[tuple]:
    """Rows of what a step sent, and of the formula, by (mesh, shard, microbatches)."""
    found = []
    for mesh, shard, microbatches in rank_of:
        layout = Layout.parse(mesh, shard)
        part = build(CONFIG, layout, CPU, microbatches=microbatches)
        optimizer = torch.optim.SGD(part.parameters())
        train_step(part, optimizer, *batch(24), 0.5)
        with traffic(part.mesh) as sent:
            train_step(part, optimizer, *batch(24), 0.5)
        wanted = predicted_traffic(CONFIG, layout, 24, 16, microbatches, rank=rank)
        found.append(tuple([list(r.values()) for r in each.rows()] for each in (sent, wanted)))
    return found


def peak(options: dict, name: str, autocast: bool = False) -> int:
    """Bytes of this rank at the fullest moment of a step."""
    how = Setup(**options)
    step = prepare(LARGE, how)
    with loop(name), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        rows = how.sequences * how.microbatches * how.dp
        return record_step(step, *batch(rows, 32)).total
