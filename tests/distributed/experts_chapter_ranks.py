"""What the ranks of test_experts_chapter.py do, with the code of page 67 itself."""

import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rankbook.models.experts import Experts, Router
from rankbook.predict.memory import memory_limit

PAGE = Path(__file__).resolve().parents[2] / "chapters" / "en" / "67_experts.ipynb"
LAYER = ("route", "there", "work")
MIB = 2**20


def source(cell_id: str) -> str:
    """The code of the page's cell, without its magic."""
    (cell,) = [c for c in json.loads(PAGE.read_text("utf-8"))["cells"] if c["id"] == cell_id]
    return "".join(cell["source"]).removeprefix("%%ranks\n")


def page(*cell_ids: str) -> dict:
    """The names that these cells of the page define, on this rank."""
    names = {"torch": torch, "dist": dist, "nn": nn}
    names |= {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    for cell_id in cell_ids:
        exec(source(cell_id), names)
    return names


def tokens(rank: int, count: int = 64) -> Tensor:
    """This rank's, (count, 32), float64: what is off is no rounding."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(count, 32, generator=generator).double()


def by_hand(limit: int | None, plain: bool = False) -> list[float]:
    """How far output, gradients and those of the input are from `Experts` in one process.

    limit: copies that an expert takes of each rank's. plain: the way there has no gradient.
    """
    p, rank = page(*LAYER), dist.get_rank()
    x = tokens(rank).requires_grad_()
    torch.manual_seed(1)
    factor = None if limit is None else limit * 8 / (len(x) * 2)
    whole = Experts(32, 16, 8, 2, capacity_factor=factor, per="rank").double()
    mine = slice(rank * 8 // dist.get_world_size(), (rank + 1) * 8 // dist.get_world_size())
    up, down = (w.detach()[mine].clone().requires_grad_() for w in (whole.up, whole.down))
    gate = whole.router.weight.detach().clone().requires_grad_()

    chosen, weights = p["route"](x, gate)
    rows, coming, order, back = p["there"](x, chosen, limit)
    done = p["work"](rows.detach() if plain else rows, coming, up, down)
    y = p["home"](done, order, weights, back)
    y.square().sum().backward()

    own = tokens(rank).requires_grad_()
    right = whole(own)
    right.square().sum().backward()  # the tokens of this rank, through all experts
    for weight in (whole.up, whole.down):
        dist.all_reduce(weight.grad)
    pairs = [(y, right), (up.grad, whole.up.grad[mine]), (down.grad, whole.down.grad[mine]),
             (gate.grad, whole.router.weight.grad), (x.grad, own.grad)]  # fmt: skip
    return [((a - b).norm() / b.norm()).item() for a, b in pairs]


def one_rank_has_all(limit: int | None) -> list:
    """Rows of this rank's experts if all tokens are alike, and whether `room` was too little.

    room: what the experts may take, twice what an equal share of the rows takes.
    """
    p, rank, ranks = page(*LAYER), dist.get_rank(), dist.get_world_size()
    count, hidden = 4096, 256
    x = torch.ones(count, 32)
    gate = torch.zeros(8, 32)
    gate[:2] = 1  # the first two experts, which are rank 0's
    generator = torch.Generator().manual_seed(0)
    up, down = (
        torch.randn(8, *shape, generator=generator).chunk(ranks)[rank].requires_grad_()
        for shape in ((hidden, 32), (32, hidden))
    )
    chosen, _ = p["route"](x, gate)
    rows, coming, _, _ = p["there"](x, chosen, limit)
    refused = False
    with memory_limit(40 * MIB):
        try:
            p["work"](rows, coming, up, down)
        except RuntimeError as error:
            refused = "can't allocate memory" in str(error)
    return [len(rows), refused]


def model_of_the_page() -> dict:
    """The page's names up to its averages, with bytes of our own."""
    p = page("route")
    exec(source("room").partition("\ndef by_hand")[0], p)
    generator = torch.Generator().manual_seed(0)
    p["ids"] = torch.randint(256, (3 * 4 * 257,), generator=generator)
    for cell_id in ("model", "average"):
        exec(source(cell_id), p)
    return p


def averages() -> dict[str, list[float]]:
    """Of each average of the page: how far shared and expert gradients are off, and the factor."""
    p, noted = model_of_the_page(), "    outcome[average.__name__] = [*off, sizes[-1]]\n"
    p["outcome"] = {}
    exec(source("compare").replace("    print(", noted + "    print("), p)
    return p["outcome"]


def routers() -> list[int]:
    """How many different routers there are after three steps: experts by name, and right."""
    p, found = model_of_the_page(), []
    exec(source("steps"), p)
    exec(source("router").partition("\nmodel = ")[0], p)
    for average in (p["by_name"], p["halved"]):
        model = p["Small"](p["ep"])
        p["train"](model, average, torch.optim.Adam, steps=3)
        weight = model.moe.router.weight.detach()
        every = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
        dist.all_gather(every, weight)
        found.append(len(torch.stack(every).unique(dim=0)))
    return found


def balance() -> list[list[float]]:
    """How far the router's gradient is off by each of the page's losses, and its size."""
    p = page("route")
    code = source("aux")
    exec(code[: code.index("\nrouter, batch")], p)  # the functions alone
    torch.manual_seed(2)
    p["router"] = router = Router(32, 8, 2).double()
    p["batch"] = batch = torch.cat([tokens(rank, 32) for rank in range(dist.get_world_size())])
    p["right"] = p["gradient_of"](p["balance"](router(batch)))
    from rankbook.parallel.replicas import average_gradients

    p["average_gradients"] = average_gradients
    exec(source("compare").partition("\nrows, one")[0], p)  # its words
    code = source("aux-cure").replace("chunk(4)", "chunk(world_size)")
    exec(code[: code.index("assert ")], p)
    return [p["off"][name] for name in ("local counts", "counts of all", "divided twice")]
