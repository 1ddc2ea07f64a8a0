"""What the ranks of test_tensor_parallel_chapter.py do, with the code of page 61 itself."""

import json
from copy import deepcopy
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from rankbook.models import TransformerConfig, initialise, token_loss
from rankbook.models.transformer import TransformerLayer

PAGE = Path(__file__).resolve().parents[2] / "chapters" / "en" / "61_tensor_parallel.ipynb"
QUARTER = Shard(1)  # of (batch, length, d_model)


def source(cell_id: str) -> str:
    """The code of the page's cell, without its magic."""
    (cell,) = [c for c in json.loads(PAGE.read_text("utf-8"))["cells"] if c["id"] == cell_id]
    return "".join(cell["source"]).removeprefix("%%ranks\n")


def page(*cell_ids: str) -> dict:
    """The names that these cells of the page define, on this rank."""
    names = {"torch": torch, "dist": dist}
    names |= {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    for cell_id in cell_ids:
        exec(source(cell_id), names)
    return names


def layer_of(heads: int, d_model: int = 16) -> tuple[TransformerLayer, torch.Tensor]:
    """A whole layer and its input, float64: what is off is no rounding."""
    config = TransformerConfig(8, d_model, 2 * d_model, heads, layers=1)
    whole = TransformerLayer(config)
    initialise(whole, seed=0)
    x = torch.randn(2, 8, d_model, generator=torch.Generator().manual_seed(1))
    return whole.double(), x.double()


def learned(seed_of_rank: int) -> torch.Tensor:
    """The shards of all ranks after some steps, each rank's from seed_of_rank * rank."""
    p = page("f-and-g", "layers")
    torch.manual_seed(seed_of_rank * dist.get_rank())
    model = torch.nn.Sequential(p["Columns"](4, 2), torch.nn.ReLU(), p["Rows"](2, 4))
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(7))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = (model(x) - x.abs()).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    weight = model[0].weight.detach()
    shards = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, weight)
    return torch.cat(shards)


def by_hand(without_f: bool) -> list[float]:
    """How far loss and gradients of the layer are off, relative."""
    p = page("f-and-g", "layers", "cut", "compare")
    if without_f:
        p["Copy"].backward = staticmethod(lambda ctx, gradient: gradient)
    whole, x = layer_of(heads=4)
    right, layer = p["loss_of"](whole, x), p["by_hand"](deepcopy(whole))
    loss = p["loss_of"](layer, x)
    return [abs(loss / right - 1), p["off"](layer, whole)]


def three_heads() -> list:
    """What the model says of one and a half heads, and how far off a head of all columns is."""
    p = page("f-and-g", "layers", "cut", "compare")
    whole, x = layer_of(heads=3, d_model=24)
    right, layer = p["loss_of"](whole, x), p["by_hand"](deepcopy(whole))
    said = ""
    try:
        layer(x)
    except RuntimeError as error:
        said = str(error)
    layer.d_head = 12 // (3 // dist.get_world_size())
    loss = p["loss_of"](layer, x)
    return [said, abs(loss / right - 1), p["off"](layer, whole)]


def dropped(common_stream: bool) -> float:
    """How far gradients under dropout are from one process that has all ranks' masks."""
    p = page("f-and-g", "layers", "cut", "compare", "dropout")
    rank, ranks = dist.get_rank(), list(range(dist.get_world_size()))
    whole, x = layer_of(heads=4)
    layer = p["by_hand"](deepcopy(whole))
    p["half"](whole, x, [9], ranks).square().mean().backward()
    stream = [9] if common_stream else [rank]
    p["half"](layer, x, stream, [rank]).square().mean().backward()
    return p["off"](layer, whole, of=("norm2", "up", "down"))


def sequence(sharded_stream: bool) -> list[float]:
    """Sequence parallel norms: how far loss and gradients are off, how long x is for norm1."""
    p = page("f-and-g", "layers", "cut", "compare")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole, x = layer_of(heads=4)
    plan = {name: SequenceParallel() for name in ("norm1", "norm2")}
    plan |= {name: ColwiseParallel(input_layouts=QUARTER) for name in ("q", "k", "v", "up")}
    plan |= {name: RowwiseParallel(output_layouts=QUARTER) for name in ("out", "down")}
    layer = parallelize_module(deepcopy(whole), mesh, plan)
    if sharded_stream:
        _shard_between(layer, mesh)
    lengths: list[int] = []
    layer.norm1.register_forward_hook(lambda *of: lengths.append(of[2].shape[1]))
    right, loss = p["loss_of"](whole, x), p["loss_of"](layer, x)
    return [abs(loss / right - 1), p["off"](layer, whole), lengths[0] / x.shape[1]]


def _shard_between(layer: TransformerLayer, mesh) -> None:
    """The stream is cut where the layer begins, and gathered where it ends."""
    whole = Replicate()
    enter = PrepareModuleInput(
        input_layouts=whole, desired_input_layouts=QUARTER, use_local_output=True
    )
    leave = PrepareModuleOutput(output_layouts=QUARTER, desired_output_layouts=whole)
    parallelize_module(layer, mesh, enter)
    parallelize_module(layer, mesh, leave)


def entropy_of_the_page() -> list[float]:
    """How far the page's cut cross entropy is off, and its gradient."""
    p = page("f-and-g")
    code = source("vocabulary")
    exec(code[: code.index("\nlogits = one(")], p)  # the function alone
    rank, ranks = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(2)
    logits = 30 * torch.randn(2, 5, 4 * ranks, generator=generator, dtype=torch.float64)
    targets = torch.randint(4 * ranks, (2, 5), generator=generator)
    right = token_loss(logits.requires_grad_(), targets)
    right.backward()
    mine = logits.detach().chunk(ranks, -1)[rank].clone().requires_grad_()
    loss = p["entropy"](mine, targets)
    loss.backward()
    expected = logits.grad.chunk(ranks, -1)[rank]
    return [abs((loss / right).item() - 1), (mine.grad - expected).abs().max().item()]
