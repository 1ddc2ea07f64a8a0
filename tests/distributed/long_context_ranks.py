"""What the ranks of test_long_context_chapter.py do, with the code of page 66 itself."""

import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn import functional as F

PAGE = Path(__file__).resolve().parents[2] / "chapters" / "en" / "66_long_context.ipynb"
LENGTH = 64
MODEL = "text", "model", "naive"
RING = *MODEL, "softmax", "ring-meetings", "ring-forward", "ring-backward", "compare", "proof"
AFTER = {  # what stands in a cell after its definitions, which a test does in its own way
    "naive": "cut = model_for(",
    "proof": "for name, attention in",
    "wrong": "cuts = {",
}


def source(cell_id: str) -> str:
    """The code of the page's cell, without its magic, up to what `AFTER` says."""
    (cell,) = [c for c in json.loads(PAGE.read_text("utf-8"))["cells"] if c["id"] == cell_id]
    code = "".join(cell["source"])
    code = code.partition("\n")[2] if code.startswith("%%ranks") else code
    if cell_id in AFTER:
        assert AFTER[cell_id] in code
        code = code[: code.index(AFTER[cell_id])]
    return code


def page(*cell_ids: str, rank: int | None = None, world_size: int | None = None) -> dict:
    """The names that these cells of the page define, on this rank; or on one that is none."""
    names = {"torch": torch, "dist": dist}
    names |= {"rank": dist.get_rank() if rank is None else rank}
    names |= {"world_size": world_size or dist.get_world_size()}
    for cell_id in cell_ids:
        exec(source(cell_id), names)
    return names


def exact(*cell_ids: str) -> dict:
    """`page` in float64: what is off by more than 1e-12 is no rounding."""
    torch.set_default_dtype(torch.float64)
    return page(*cell_ids)


def off(p: dict, places: torch.Tensor, attention, **wrong) -> list[float]:
    """By how much the loss is off, and the worst of all gradients, relative."""
    loss, gradients = p["against_one"](places, attention, **wrong)
    return [abs(loss.item()), max(gradients.values())]


def ring(order: str) -> list[float]:
    """The page's ring, on as many ranks as there are."""
    from rankbook.parallel.context import positions

    p = exact(*RING)
    places = positions(LENGTH, dist.get_world_size(), dist.get_rank(), order)
    return off(p, places, p["ring"](order))


def heads() -> list[float]:
    """The page's all-to-all."""
    p = exact(*RING, "heads")
    return off(p, p["here"], p["by_heads"])


def naive() -> list[float]:
    """Attention within each part only."""
    p = exact(*RING)
    return off(p, p["here"], p["local"])


def forgotten() -> list:
    """The ring whose last message is forgotten: the loss, and the weights that are right."""
    p = exact(*RING)
    passed, last = p["pass_on"], dist.get_world_size() - 1
    p["pass_on"] = lambda x, step: x if step == last else passed(x, step)
    loss, gradients = p["against_one"](p["here"], p["ring"]("blocks"))
    good = [name for name, each in gradients.items() if each < 1e-12 and name.endswith("weight")]
    return [abs(loss.item()), sorted(good)]


def misplaced() -> list[list[float]]:
    """Zigzag with what is right, with positions from 0, with targets shifted after the cut."""
    p = exact(*RING)
    from rankbook.parallel.context import positions

    places = positions(LENGTH, dist.get_world_size(), dist.get_rank(), "zigzag")
    p["zigzag"] = places
    exec(source("wrong"), p)
    attention = p["ring"]("zigzag")
    from_0 = {"seen": torch.arange(len(places))}
    return [off(p, places, attention, **how) for how in ({}, from_0, {"targets": p["late"]})]


def trained(steps: int) -> list[float]:
    """Of the naive cut: its first and last loss; then the model's, not cut, and the control's."""
    p = page(*MODEL)
    code = source("naive").replace("range(200)", f"range({steps})")
    assert f"range({steps})" in code
    exec(code, p)
    cut, one, whole = (p["model_for"](p[at], p["local"]) for at in ("here", "row", "row"))
    losses = p["train"](p["DDP"](cut), p["here"])
    p["train"](one, p["row"])
    whole.load_state_dict(cut.state_dict())
    tokens, targets = p["told_twice"](256, torch.Generator().manual_seed(2))
    with torch.no_grad():
        found = [p["token_loss"](model(tokens), targets).item() for model in (whole, one)]
    return [losses[0], losses[-1], *found]


def official() -> str:
    """What torch's own says on a CPU."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parts = list(torch.randn(3, 1, 2, 16, 8))
    try:
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
            F.scaled_dot_product_attention(*parts, is_causal=True)
    except NotImplementedError as error:
        return str(error)
    return ""
