"""What the ranks of test_silent_wrongs_chapter.py do: page 63's cells, and what it only says."""

import contextlib
import io
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor

PAGE = Path(__file__).parents[2] / "chapters" / "en" / "63_silent_wrongs.ipynb"


def executed(until: str = "buffers") -> dict:
    """Run the page's cells for the ranks, in order, to the cell `until`; what they define."""
    names = {
        "torch": torch,
        "dist": dist,
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "device": torch.device("cpu"),
    }
    for cell in json.loads(PAGE.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and source.startswith("%%ranks\n"):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source.removeprefix("%%ranks\n"), cell["id"], "exec"), names)
        if cell["id"] == until:
            break
    return names


def gallery() -> dict:
    """All that the page's cells found, by bug: the errors of the loss, and of the worst."""
    return {bug: list(row[:2]) for bug, row in executed()["found"].items()}


def gradients() -> dict[str, list[float]]:
    """Of each bug that spoils gradients, how far off the worst one is, and the same when cured.

    By plain subtraction, without `prove`, so that it isn't the only witness.
    """
    page = executed("norms")
    cut, batch = page["Cut"], page["batch"]
    pipelined, half, tied = page["pipelined"], page["half"], page["Tied"]
    one = page["one_process"]
    mean, twice = page["mean"], page["twice_mean"]
    pairs = {
        "mean of means": (page["mean_of_means"], page["Net"], page["by_tokens"], page["Net"]),
        "scale of a pipeline": (page["divided_after"], half, pipelined(mean), half),
        "accumulated scale": (
            pipelined(twice, calls=2, scale=True), half, pipelined(mean, calls=2), half,
        ),
        "a sum summed again": (one, page["SummedAgain"], one, cut),
        "bias in a sum": (one, page["BiasInside"], one, cut),
        "rows by rank": (page["rows_by_rank"], cut, one, cut),
        "norms never summed": (one, page["Sequence"], page["norms_added"], page["Sequence"]),
        "tied stages": (
            pipelined(mean), lambda: half(tied), page["both_added"], lambda: half(tied),
        ),
    }  # fmt: skip
    found = {}
    for bug, (wrong, build, cured, rebuild) in pairs.items():
        whole = tied() if bug == "tied stages" else page["Net"]()
        one(whole, batch)
        found[bug] = [
            _worst(step, model(), whole, batch)
            for step, model in ((wrong, build), (cured, rebuild))
        ]
    return found


def _worst(step, model, whole, batch) -> float:
    """The largest relative error of a gradient on this rank, beside the pieces of the whole's."""
    step(model, batch)
    names = dict(whole.named_parameters(remove_duplicate=False))
    errors = []
    for name, p in model.named_parameters():
        right = names[name].grad
        for dim in range(right.dim()):
            if p.shape[dim] < right.shape[dim]:
                right = right.chunk(2, dim)[dist.get_rank()]
        errors.append((p.grad - right).norm() / right.norm())
    return torch.stack(errors).max().item()


def only_rank_0() -> list:
    """Rank 0 alone gathers `ones`, then both gather `twos`: what each has, and who waited."""
    mesh = dist.init_device_mesh("cpu", (2,))
    ones, twos, threes = (
        distribute_tensor(torch.full((4,), value), mesh, [Shard(0)]) for value in (1.0, 2.0, 3.0)
    )
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        ones.full_tensor()
        twos.full_tensor()
        return [store.check(["freed"])]  # it came back only once rank 1 had called again
    seen = twos.full_tensor().tolist()
    store.set("freed", "")
    threes.full_tensor()
    return seen
