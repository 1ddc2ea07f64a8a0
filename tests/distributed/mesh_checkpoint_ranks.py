"""What the ranks of test_mesh_checkpoints.py do: save in each layout, load each in each.

Worlds of several sizes share a launch. A process is in one of them only: torch remembers what comes
of an operation on a DTensor with its mesh, which may be equal to one of a world that is gone.
"""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout, build, train_step
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.training.checkpoint import PipelineCheckpoints, capture_stages
from tests.waiting import SOON

# 30 words do not divide by 4 replicas, nor 3 layers by 2 stages
CONFIG = TransformerConfig(30, d_model=16, d_hidden=32, heads=2, layers=3, max_length=8)
LAYOUTS = [
    ("dp=1", "none"),
    ("pp=2", "none"),
    ("tp=2", "none"),
    ("pp=2,tp=2", "none"),
    ("dp=4", "fsdp"),
    ("dp=4", "2"),  # HSDP
    ("pp=2,dp=2,tp=2", "fsdp"),
]
STEPS = 2
Tensors = dict[str, torch.Tensor]


def work(folder: str, worlds: list[int], todo: str) -> dict[str, int]:
    """Do "save", "load" or "save and load" in all layouts of these sizes, side by side.

    The first `worlds[0]` ranks are one world, the next ones another. Returns for
    "saved in -> loaded in" how many tensors this rank holds after loading, all bit-equal; or -1.
    """
    rank, everyone = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    first = 0
    while rank >= first + worlds[0]:
        first, worlds = first + worlds[0], worlds[1:]
    root, found = Path(folder), {}
    _join(root / f"{todo} {worlds[0]}", rank - first, worlds[0])
    layouts = [Layout.parse(*layout) for layout in LAYOUTS]
    mine = [(number, each) for number, each in enumerate(layouts) if each.ranks == worlds[0]]
    for number, layout in mine:
        if "save" in todo:
            _save(root, number, layout)
    for _, layout in mine:
        if "load" in todo:
            found |= _load_all(root, layout)
    dist.barrier()
    dist.destroy_process_group()
    _join(root / f"after {todo} {everyone}", rank, everyone)  # the one that run_ranks leaves
    return found


def _join(store: Path, rank: int, world_size: int) -> None:
    where = {"init_method": f"file://{store}", "rank": rank, "world_size": world_size}
    # worlds with less to do wait here for the others: as long as the launch may take
    dist.init_process_group("gloo", timeout=timedelta(seconds=SOON), **where)


def _make(layout: Layout, seed: int) -> tuple[ShardedModel, torch.optim.Optimizer]:
    part = build(CONFIG, layout, torch.device("cpu"), seed=seed)
    return part, torch.optim.AdamW(part.parameters(), lr=1e-2)


def _save(root: Path, number: int, layout: Layout) -> None:
    """Train a model with values of its own; save it, and what is in it, whole, by name."""
    part, optimizer = _make(layout, seed=number)
    text = torch.randint(30, (8, 9), generator=torch.Generator().manual_seed(number))
    for _ in range(STEPS):
        train_step(part, optimizer, text[:, :-1], text[:, 1:], 0.5)
    folder = root / _name(layout)
    PipelineCheckpoints(folder).save(STEPS, capture_stages(part, optimizer, {"from": number}))
    tensors, copies = _whole(part, optimizer), layout.dp * layout.tp
    if dist.get_rank() % copies == 0:  # the ranks of a stage all have the same
        torch.save(tensors, root / f"{_name(layout)}-{dist.get_rank() // copies}.pt")


def _load_all(root: Path, layout: Layout) -> dict[str, int]:
    found = {}
    for number, saved_in in enumerate(Layout.parse(*each) for each in LAYOUTS):
        part, optimizer = _make(layout, seed=99)
        saved = PipelineCheckpoints(root / _name(saved_in)).newest()
        position = saved.load_into(part, optimizer)
        assert position == {"from": number}
        wanted: Tensors = {}
        for stage in range(saved_in.pp):
            wanted |= torch.load(root / f"{_name(saved_in)}-{stage}.pt", weights_only=True)
        mine = _whole(part, optimizer)
        equal = all(torch.equal(value, wanted[name]) for name, value in mine.items())
        found[f"{_name(saved_in)} -> {_name(layout)}"] = len(mine) if equal else -1
    return found


@torch.no_grad()
def _whole(part: ShardedModel, optimizer: torch.optim.Optimizer) -> Tensors:
    """Parameters, their moments and counts of steps, each as one process would have it."""
    found = {}
    for name, parameter in part.named_parameters():
        state = {"": parameter} | optimizer.state[parameter]
        for key, value in state.items():
            whole = value.full_tensor() if isinstance(value, DTensor) else value
            found[f"{name}.{key}"] = torch.as_tensor(whole).clone()
    return found


def _name(layout: Layout) -> str:
    return f"{layout} shard={layout.shard}"
