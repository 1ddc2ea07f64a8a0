"""What the ranks of test_mesh_norm.py do: the norm of a model that is cut in all ways at once."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from rankbook.core.dtensor import to_local
from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.mesh import Layout, build, clip_grad_norm
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.mesh.stepping import accumulate

CONFIG = TransformerConfig(62, d_model=32, d_hidden=64, heads=4, layers=4, max_length=16)
MAX_NORM = 0.25
LAYOUTS = [
    ("pp=2,dp=2,tp=2", "fsdp"),
    ("pp=2,dp=2,tp=2", "none"),
    ("dp=4,tp=2", "2"),
    ("dp=8", "2"),
    ("pp=4,tp=2", "none"),
]


def whole() -> dict:
    """One process: the norm, its gradients after clipping, and how many of each are to be one."""
    model = TransformerLM(CONFIG)
    initialise(model, 0)
    token_loss(model(_text()[:, :-1]), _text()[:, 1:]).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    return {"norm": norm, "clipped": {name: p.grad for name, p in model.named_parameters()}}


def everything() -> dict:
    """What the norms are by layout, and what torch's own function says to mixtures."""
    return {
        "ours": {f"{words} {shard}": clipped(words, shard) for words, shard in LAYOUTS},
        "partial": partial_sums(),
        "torch": torchs_own(),
    }


def clipped(words: str, shard: str) -> dict:
    """The norm that we say; that of the gradients clipped; the worst difference from one process.

    Relative to the norm of all clipped gradients, as some are nothing but rounding.
    """
    part = _part(words, shard)
    accumulate(part, _text()[:, :-1], _text()[:, 1:])
    return _clip(part)


def partial_sums() -> dict:
    """Norms of a sequence parallel layer have sums that were left to do, when clipping begins."""
    part = _part("pp=4,tp=2", "none")
    part.step(_text()[:, :-1], _text()[:, 1:])
    gradients = [p.grad for p in part.parameters()]
    left = [g for g in gradients if isinstance(g, DTensor) and g.placements[0].is_partial()]
    # right but for taking parts of sums for parts of gradients
    alike = [2 if g.placements[0].is_replicate() else 1 for g in gradients]
    naive = sum(to_local(g).square().sum() / n for g, n in zip(gradients, alike, strict=True))
    dist.all_reduce(naive)
    return {"left": len(left), "naive": naive.sqrt()} | _clip(part)


def torchs_own() -> dict[str, str]:
    """What `clip_grad_norm_` raises for plain gradients beside DTensors, and for two meshes."""
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
    found = {}
    for name, model in {
        "mixed": _cut(mesh),
        "meshes": fully_shard(_cut(mesh), mesh=mesh["dp"]),
    }.items():
        model(torch.ones(2, 16, 8)).square().sum().backward()
        try:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            found[name] = "right"
        except RuntimeError as error:
            found[name] = str(error)
        found[f"{name}, ours"] = clip_grad_norm(model.parameters(), 1.0, _three(mesh)).item()
    alone = _plain()
    alone(torch.ones(2, 16, 8)).square().sum().backward()
    found["one process"] = nn.utils.get_total_norm([p.grad for p in alone.parameters()]).item()
    stage = _part("pp=4,tp=2", "none")
    accumulate(stage, _text()[:, :-1], _text()[:, 1:])
    own = nn.utils.get_total_norm([p.grad for p in stage.parameters()])
    found["of a stage"] = (own.full_tensor() if isinstance(own, DTensor) else own).item()
    return found


def _text() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(CONFIG.vocab_size, (16, 17), generator=generator)


def _part(words: str, shard: str) -> ShardedModel:
    return build(CONFIG, Layout.parse(words, shard), torch.device("cpu"))


def _clip(part: ShardedModel) -> dict:
    norm = clip_grad_norm(part.parameters(), MAX_NORM, part.mesh)
    wanted = whole()["clipped"]
    size = torch.stack([g.square().sum() for g in wanted.values()]).sum().sqrt()
    worst = 0.0
    for name, p in part.named_parameters():
        gradient = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        worst = max(worst, ((gradient - wanted[name]).norm() / size).item())
    return {"norm": norm, "worst": worst}


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(self.norm(x)))


def _plain() -> Two:
    torch.manual_seed(0)
    return Two()


def _cut(mesh: DeviceMesh) -> Two:
    """As in many a model: its matrices are cut, its norm is plain."""
    styles = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(_plain(), mesh["tp"], styles)
    assert isinstance(model, Two)
    return model


def _three(mesh: DeviceMesh) -> DeviceMesh:
    return init_device_mesh("cpu", (1, *mesh.shape), mesh_dim_names=("pp", "dp", "tp"))
