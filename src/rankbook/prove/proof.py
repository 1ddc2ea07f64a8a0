"""`prove`: one training step on these ranks beside the same step in one process."""

import uuid
from collections.abc import Callable
from typing import Any

import torch

# Optimizers import it at their first use, and if a process group is there by then, something in it
# keeps the group (torch 2.13): destroyed, it still has threads, and one of gloo's may abort a rank
# that ends. Imported here, it comes before the group.
import torch._dynamo
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from rankbook.core.agreement import agree, broadcast_from_rank0, gather
from rankbook.prove.inputs import Side, compared_before, same_everywhere, told_by
from rankbook.prove.meeting import raise_on_all
from rankbook.prove.names import reshard, twin_parameters
from rankbook.prove.optimizers import all_settings, twin_optimizers
from rankbook.prove.part import RankView
from rankbook.prove.pieces import Layout
from rankbook.prove.report import Report
from rankbook.prove.running import run_part
from rankbook.prove.summing_up import Seen, sum_up
from rankbook.prove.twin import TwinStep, modes_of, run_twin
from rankbook.prove.untouched import emptied, kept, refusing, same_random_numbers, seed_all


def prove(
    step: Callable[[Any, Any], Any],
    model: Any,
    optimizer: Any = None,
    batch: Any = None,
    *,
    twin: nn.Module,
    twin_step: Callable[[Any, Any], Any] | None = None,
    twin_optimizer: Any = None,
    layout: dict[str, Any] | None = None,
    mesh: DeviceMesh | None = None,
    names: Callable[[str], str] | None = None,
    max_norm: float | None = None,
    clip: Callable[..., Any] | None = None,
    steps: int = 1,
    tolerance: float | None = None,
    seed: int = 0,
) -> Report:
    """Do these ranks compute what one process computes? All ranks call it, and get the same.

    step: ``step(model, batch)`` of this rank, which takes its own share of the batch: forward,
    backward, whatever the ranks exchange. It returns the loss, of its share or of all, or None
    where a rank knows none. It may go on to clip and to step the optimizer, and then returns
    ``(loss, norm)``.
    model: this rank's part, or a list of its stages; anything with ``named_parameters()``.
    DTensors (of FSDP2, of parallelize_module) say how they are cut, and what DDP and compilers
    put into names is seen through.
    optimizer: this rank's, or a list of them; without one, the gradients are the end of it.
    batch: the whole batch, the same on all ranks.
    twin: the model in one process with the same values, on every rank; ``twin_step(twin, batch)``
    is its forward and backward on the whole batch. Without it, `step` must be able to do that.
    twin_optimizer: over the twin's parameters. Without it one is made: of the same class, with the
    same settings of each parameter.
    layout, mesh: where a plain tensor is a piece of the twin's: ``{"*.up.weight": Shard(0)}``;
    a pattern of names, and a placement for each dimension of `mesh`, or ``{dimension: placement}``,
    or a function that cuts this rank's piece out of the whole.
    names: gives the twin's name for a name of the part.
    max_norm, clip: ``clip(parameters, max_norm)`` returns the norm; the twin is clipped by torch's
    `torch.nn.utils.clip_grad_norm_`, which is also what `clip` is if only `max_norm` is given.
    steps: more than one finds what goes wrong from the second on. All take the same batch.
    tolerance: relative, in the 2-norm of each tensor. Without it:
    ``8 * (eps + eps32 * sqrt(n))``, where eps is that of the parameters' dtype, eps32 that of
    float32 in which sums are formed (or of float64), and n how many numbers are added up for one
    element of a gradient: at most the elements of the batch and of the longest row together. A
    tensor smaller than the model's average is compared with that average, as its rounding errors
    are of such sizes. A gradient that passes through half precision needs another: 2e-2.
    seed: what the random numbers begin with, in the twin's step and in the part's.

    Everything is compared piece by piece where it lies: parameters before the step (where they
    differ, nothing more is done: what follows would be their consequence), the loss, every
    gradient, the norm, the gradients clipped, parameters after the step, buffers. After each
    comparison of gradients the twin's take their place, so that each error is named where it
    arises. The first difference of gradients is the first in the order in which the twin's backward
    produces them: a wrong one spoils those of the layers before it, never those behind.
    The optimizers begin with an empty state. Afterwards parameters, buffers, optimizers and random
    numbers are as before; gradients are cleared.

    Raises ValueError, on all ranks, for what cannot be compared, RuntimeError where `step` raised:
    on which ranks, and what.
    """
    call = gather(uuid.uuid4().hex)[0]  # the first collective: from here on ranks meet by its name
    optimizers = _listed(optimizer)
    if clip is not None and max_norm is None:
        raise ValueError("clip needs max_norm, by which the twin is clipped as well")

    def prepare() -> tuple[Side, RankView, dict[str, Any]]:
        side = Side(twin, *twin_parameters(twin), dict(twin.named_buffers()))
        part = compared_before(model, side, Layout(layout, mesh), names, batch, tolerance)
        return side, part, told_by(side, part, model, optimizers, batch)

    side, part, mine = agree(prepare)
    everyone = gather(mine)
    agree(lambda: same_everywhere(everyone))
    part.tolerance = max(each["tolerance"] for each in everyone)
    seen = Seen(list(side.first), everyone, part.tolerance, modes_of(twin))
    if early := seen.before({name: p.numel() for name, p in side.parameters.items()}):
        return early
    settings = all_settings(everyone, side.parameters)
    of_twin = _listed(twin_optimizer) or agree(lambda: twin_optimizers(settings, side.parameters))
    of_both = [*optimizers, *of_twin]
    use = torch.nn.utils.clip_grad_norm_ if clip is None else clip

    part.facts.clear()
    ways: list[TwinStep] = []
    numbers: list[tuple[float | None, float | None]] = []
    with same_random_numbers(), kept([*part.tensors(), *side.tensors()]), emptied(of_both):
        for part.step in range(1, steps + 1):
            seed_all(seed)
            with raise_on_all(lambda: "the twin's step", f"{call}/{part.step}/twin"):
                refused = optimizers if twin_step is None else []
                with refusing(refused, "step steps the optimizer: give twin_step="):
                    run = twin_step or step
                    ways.append(run_twin(run, *side[:2], of_twin, batch, max_norm))
            seed_all(seed)
            with raise_on_all(lambda: part.doing, f"{call}/{part.step}/part"):
                way = ways[-1]
                numbers.append(run_part(part, step, model, batch, optimizers, use, max_norm, way))
            way.forget_gradients()
        part.add_up(gather(part.mesh_ranks()))
    reshard(model)
    told = gather((part.facts, numbers, list(part.sums)))
    return broadcast_from_rank0(lambda: sum_up(seen, told, ways, max_norm))


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]
