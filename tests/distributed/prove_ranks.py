"""What the ranks of test_prove.py do: steps that are right, and the same ones made wrong."""

import contextlib
import importlib
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from rankbook.core.dtensor import to_local
from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.mesh import Layout, build, clip_grad_norm, train_step
from rankbook.parallel.mesh.stepping import accumulate
from rankbook.prove import prove
from rankbook.prove.digest import leaves

WORDS, WIDTH = 11, 8


class Block(nn.Module):
    """A residual block of a norm and two layers."""

    def __init__(self, hidden: int = 16):
        super().__init__()
        self.norm, self.gelu = nn.LayerNorm(WIDTH), nn.GELU()
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)

    def forward(self, x):
        return x + self.down(self.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """A language model without attention."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def whole(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def a_batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(WORDS, (8, 7), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def loss_of(model: nn.Module, batch) -> torch.Tensor:
    return cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def alone(model: nn.Module, batch) -> torch.Tensor:
    loss = loss_of(model, batch)
    loss.backward()
    return loss


def on_share(model: nn.Module, batch) -> torch.Tensor:
    """Forward and backward of this rank's rows."""
    share = [rows.chunk(dist.get_world_size())[dist.get_rank()] for rows in batch]
    return alone(model, share)


def mean_of_all(model: nn.Module, batch) -> torch.Tensor:
    """The step of plain replicas."""
    loss = on_share(model, batch)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    return loss


def proof(step: Callable, model: Any, optimizer: Any = None, **options):
    """With a twin of its own, unless told otherwise; with plain SGD."""
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"twin": whole(), "twin_step": alone, "batch": a_batch()} | options
    return prove(step, model, optimizer, **options)


def told(report) -> dict:
    """The report, in plain values."""
    first = report.first
    return {
        "text": str(report),
        "right": report.right,
        "compared": report.compared,
        "largest": report.largest,
        "tolerance": report.tolerance,
        "kind": first.kind if first else "",
        "name": first.name if first else "",
        "says": first.says if first else "",
        "ratio": first.ratio if first else None,
        "error": first.error if first else 0.0,
        "ranks": list(first.ranks) if first else [],
        "kinds": {d.kind: [o.name for o in report.differences if o.kind == d.kind]
                  for d in report.differences},
    }  # fmt: skip


def all_of(module: str, begin: str) -> dict[str, dict]:
    """What each function of a module whose name begins so gives, or the words of its error."""
    cases = {n: f for n, f in vars(importlib.import_module(module)).items() if n.startswith(begin)}
    found = {}
    for name, case in cases.items():
        if case.__module__ != module:
            continue
        try:
            found[name.removeprefix(begin)] = told(case())
        except (ValueError, RuntimeError) as error:
            found[name.removeprefix(begin)] = {"raised": f"{type(error).__name__}: {error}"}
    return found


# right ----------------------------------------------------------------------------------------


def of_plain_replicas():
    return proof(mean_of_all, whole(), max_norm=0.1)


def of_ddp():
    model = DDP(whole())
    return proof(on_share, model, torch.optim.AdamW(model.parameters(), 1e-2), max_norm=0.1)


def of_fsdp():
    model = whole()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model(a_batch()[0])  # a forward pass alone leaves the root gathered
    return proof(on_share, model, optimizer, steps=2)


def of_a_whole_step():
    """`step` clips and steps the optimizer itself."""
    model = whole()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def step(model, batch):
        loss = mean_of_all(model, batch)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        return loss, norm

    return proof(step, model, optimizer, max_norm=0.1)


PLAN = {
    "blocks.*.up": ColwiseParallel(),
    "blocks.*.down": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}


def of_tensor_parallel():
    model = parallelize_module(whole(), init_device_mesh("cpu", (2,)), PLAN)
    return proof(alone, model, torch.optim.Adam(model.parameters()), max_norm=0.1, clip=summed_norm)


def sequence_plan() -> dict:
    return {
        "embedding": PrepareModuleOutput(
            output_layouts=Replicate(), desired_output_layouts=Shard(1)
        ),
        "blocks.*.norm": SequenceParallel(),
        "blocks.*.up": ColwiseParallel(input_layouts=Shard(1)),
        "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
        "head": PrepareModuleInput(
            input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_output=True
        ),
    }


def of_sequence_parallel(without: tuple[str, ...] = ()):
    plan = {name: style for name, style in sequence_plan().items() if name not in without}
    model = parallelize_module(whole(), init_device_mesh("cpu", (2,)), plan)
    return proof(alone, model, max_norm=0.1, clip=summed_norm)


def summed_norm(parameters, max_norm):
    """Of DTensors and plain gradients that all ranks have alike."""
    from torch.distributed.tensor import DTensor

    squares = torch.zeros(())
    for parameter in parameters:
        gradient = parameter.grad
        if isinstance(gradient, DTensor):
            gradient = gradient.full_tensor()
        squares += gradient.square().sum()
    norm = squares.sqrt()
    for parameter in parameters:
        parameter.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


class Summed(torch.autograd.Function):
    """The sum over the ranks of a group; backward, what each of them gets."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Copied(torch.autograd.Function):
    """The same on all ranks of a group; backward, the sum of what they have."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class CutBlock(Block):
    """A block whose hidden units are cut among the ranks of a group, by hand."""

    def __init__(self, of: Block, group, copied):
        super().__init__(16 // dist.get_world_size(group))
        self.norm, self.group, self.copied = of.norm, group, copied
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        with torch.no_grad():
            self.up.weight.copy_(of.up.weight.chunk(ranks)[rank])
            self.up.bias.copy_(of.up.bias.chunk(ranks)[rank])
            self.down.weight.copy_(of.down.weight.chunk(ranks, 1)[rank])
            self.down.bias.copy_(of.down.bias)

    def forward(self, x):
        hidden = self.gelu(self.up(self.copied(self.norm(x), self.group)))
        y = nn.functional.linear(hidden, self.down.weight)
        return x + Summed.apply(y, self.group) + self.down.bias


CUT = {"*.up.*": Shard(0), "*.down.weight": Shard(1)}


def by_hand(copied: Any = Copied.apply, group: Any = None):
    model = whole()
    model.blocks = nn.ModuleList(CutBlock(block, group, copied) for block in model.blocks)
    return model


def of_hand_cut():
    return proof(alone, by_hand(), layout=CUT, mesh=init_device_mesh("cpu", (2,)))


def of_a_function_that_cuts():
    def rows(tensor):
        return tensor.chunk(2)[dist.get_rank()]

    def columns(tensor):
        return tensor.chunk(2, 1)[dist.get_rank()]

    return proof(alone, by_hand(), layout={"*.up.*": rows, "*.down.weight": columns})


class Stage(nn.Module):
    """Half of the model: the embedding and a block, or a block and the head."""

    def __init__(self, index: int):
        super().__init__()
        model = whole()
        self.first = model.embedding if index == 0 else model.blocks[1]
        self.second = model.blocks[0] if index == 0 else model.head

    def forward(self, x):
        return self.second(self.first(x))


NAMES = [
    {"first": "embedding", "second": "blocks.0"},
    {"first": "blocks.1", "second": "head"},
]


def twin_name(name: str) -> str:
    child, rest = name.split(".", 1)
    return f"{NAMES[dist.get_rank()][child]}.{rest}"


def two_stages(model: nn.Module, batch):
    """A pipeline of two ranks and one microbatch; the last one knows the loss."""
    if dist.get_rank() == 0:
        out = model(batch[0])
        dist.send(out.detach(), 1)
        gradient = torch.empty_like(out)
        dist.recv(gradient, 1)
        out.backward(gradient)
        return None
    x = torch.empty(*batch[0].shape, WIDTH)
    dist.recv(x, 0)
    loss = cross_entropy(model(x.requires_grad_()).flatten(0, 1), batch[1].flatten())
    loss.backward()
    dist.send(x.grad, 0)
    return loss


def norm_of_stages(parameters, max_norm):
    square = sum(p.grad.square().sum() for p in parameters)
    dist.all_reduce(square)
    nn.utils.clip_grads_with_norm_(parameters, max_norm, square.sqrt())
    return square.sqrt()


def of_stages():
    stage = Stage(dist.get_rank())
    options = {"names": twin_name, "max_norm": 0.1, "clip": norm_of_stages}
    return proof(two_stages, stage, torch.optim.Adam(stage.parameters()), **options)


def of_zero():
    model = DDP(whole())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
    return proof(on_share, model, optimizer, steps=2)


# on four ranks --------------------------------------------------------------------------------


def on_replica(mesh, then=None):
    """A step on the share of this rank's replica; `then` exchanges gradients."""

    def step(model, batch):
        replicas = mesh["dp"]
        share = [r.chunk(replicas.size())[replicas.get_local_rank()] for r in batch]
        loss = alone(model, share)
        if then is not None:
            then(model, replicas)
        return loss

    return step


def averaged(model, replicas):
    for parameter in model.parameters():
        gradient = to_local(parameter.grad)
        dist.all_reduce(gradient, group=replicas.get_group())
        gradient /= replicas.size()


def square() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def four_of_fsdp_and_tensor_parallel():
    """Some parameters are on one mesh, some on both, strided."""
    mesh = square()
    model = parallelize_module(whole(), mesh["tp"], PLAN)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)
    return proof(on_replica(mesh), model, optimizer, steps=2)


def four_of_hybrid_sharding():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(whole(), mesh=mesh)
    return proof(on_share, model)


def four_of_replicas_of_tensor_parallel(then=averaged):
    mesh = square()
    model = parallelize_module(whole(), mesh["tp"], PLAN)
    return proof(on_replica(mesh, then), model, torch.optim.Adam(model.parameters(), foreach=False))


def four_of_a_hand_cut_on_one_dimension():
    mesh = square()
    model = by_hand(group=mesh["tp"].get_group())
    layout = {"*.up.*": {"tp": Shard(0)}, "*.down.weight": {"tp": Shard(1)}}
    return proof(on_replica(mesh, averaged), model, layout=layout, mesh=mesh)


def in_layout(text: str, shard: str, whole_step: bool):
    """The book's own parts of a model in three dimensions."""
    config = TransformerConfig(WORDS, WIDTH, 16, heads=2, layers=2, max_length=6)
    part = build(config, Layout.parse(text, shard=shard), torch.device("cpu"), microbatches=2)
    twin = TransformerLM(config)
    initialise(twin, 0)
    optimizer = torch.optim.AdamW(part.parameters(), 1e-2, foreach=False)

    def gradients(part, batch):
        return accumulate(part, *batch)

    def step(part, batch):
        return train_step(part, optimizer, *batch, max_norm=0.1)

    def clip(parameters, max_norm):
        return clip_grad_norm(parameters, max_norm, part.mesh)

    own = {} if whole_step else {"clip": clip}
    todo = step if whole_step else gradients
    return proof(todo, part, optimizer, twin=twin, max_norm=0.1, **own)


def four_of_three_dimensions():
    return in_layout("pp=2,tp=2", "none", whole_step=False)


def four_of_a_sharded_pipeline():
    return in_layout("pp=2,dp=2", "fsdp", whole_step=True)


def four_of_sharded_tensors():
    return in_layout("dp=2,tp=2", "fsdp", whole_step=False)


def untouched() -> list[str]:
    """What two proofs, one of them of a step that raises, have changed in a training that runs."""
    model, twin = DDP(whole()), whole()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    alone(model, a_batch())
    optimizer.step()
    twin.load_state_dict(model.module.state_dict())

    def failing(model, batch):
        on_share(model, batch)
        raise ValueError("so far")

    def state():
        parts = model.state_dict(), twin.state_dict(), optimizer.state_dict()
        return [*leaves(parts), torch.get_rng_state(), repr(random.getstate())]

    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in state()]
    assert proof(on_share, model, optimizer, twin=twin, max_norm=0.1, steps=2).right
    with contextlib.suppress(RuntimeError):
        proof(failing, model, optimizer, twin=twin)
    assert all(p.grad is None for p in [*model.parameters(), *twin.parameters()])
    pairs = zip(before, state(), strict=True)
    return [str(a) for a, b in pairs if not (a.equal(b) if isinstance(a, torch.Tensor) else a == b)]
