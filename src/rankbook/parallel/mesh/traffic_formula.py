"""What a rank sends in a training step, from sizes alone: no rank is needed.

`rankbook.comm.traffic` counts the same; tests/distributed/test_mesh_formula.py compares them, call
by call. Sources: of tensor and sequence parallelism, https://arxiv.org/abs/2205.05198, section 4.2;
of sharded states, https://arxiv.org/abs/1910.02054, section 7; of keys and values that go round,
https://arxiv.org/abs/2310.01889, section 3.
"""

from collections.abc import Iterable, Iterator
from math import prod

import torch

from rankbook.comm.counts import OTHER, Message, Sent
from rankbook.comm.ring_model import ring_bytes
from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.mesh.building import make_plan
from rankbook.parallel.mesh.layout import DIMENSIONS, Layout
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.planned_actions import PlannedAction, action_lists
from rankbook.parallel.pipeline.stages import keep_stage

FLOAT = 4  # bytes
COLUMNS, ROWS = ("q", "k", "v", "up"), ("out", "down")
Shapes = dict[str, tuple[int, ...]]


def predicted_traffic(
    config: TransformerConfig,
    layout: Layout,
    rows: int,
    window: int,
    microbatches: int | None = None,
    schedule: str | None = None,
    rank: int = 0,
) -> Sent:
    """All that `rank` sends in one `train_step`, not the first: as `traffic` counts it.

    config: of the whole model, in float32. rows, window: the whole batch and its length, in tokens.
    microbatches, schedule: as for `build`. Raises ValueError where they do not suit each other.
    """
    if config.experts or layout.ep > 1:
        raise ValueError(
            "this formula knows no experts: how many tokens go to which of them is the router's "
            "choice; count it, by rankbook.comm.traffic"
        )
    plan = make_plan(layout, schedule, microbatches)
    plan.check_model(config)
    plan.check_batch(rows)
    layout.check_model(config)
    layout.check_window(window)
    across, index = divmod(rank, layout.tp)
    across //= layout.cp
    pipeline_rank, shard = across // layout.dp, across % layout.shard
    stages = plan.stages_of(pipeline_rank)
    shapes = {stage: _shapes(config, plan, stage, layout, index) for stage in stages}
    tokens = rows // layout.dp // plan.microbatches * window // layout.cp  # of a microbatch
    actions = list(_actions(plan, pipeline_rank))
    messages = [
        *_pipeline(plan, layout, actions, tokens * config.d_model),
        *_tensor(layout, shapes, actions, tokens, config, _summed(layout, plan)),
        *_context(layout, shapes, actions, tokens * config.d_model // layout.tp, shard),
        *_replicas(layout, shapes, actions, plan),
        *_scalars(layout),
    ]
    return Sent(DIMENSIONS, (m for m in messages if m.ranks > 1))


def _message(dimension: str, operation: str, ranks: int, floats: float) -> Message:
    nbytes = int(floats * FLOAT)
    handed = 0 if operation == "recv" else nbytes
    return Message(dimension, operation, ranks, handed, ring_bytes(operation, nbytes, ranks))


def _actions(plan: PipelinePlan, rank: int) -> Iterator[PlannedAction]:
    for together in action_lists(plan)[rank]:
        yield from together


def _is_backward(action: PlannedAction) -> bool:
    """Whether gradients of what came in are made; stage 0 has none, and does all of it in W."""
    return action.kind == "B" or action.kind == ("I" if action.stage else "W")


def _pipeline(
    plan: PipelinePlan, layout: Layout, actions: Iterable[PlannedAction], floats: int
) -> Iterator[Message]:
    """Activations to the next stage, gradients to the one before, unless they are here as well.

    floats: of the activation of a microbatch; a rank has its part of each sequence.
    """
    here = {action.stage for action in actions}
    for action in actions:
        forward = action.kind == "F"
        if not forward and not _is_backward(action):
            continue
        for operation, ahead in (("send", forward), ("recv", not forward)):
            other = action.stage + (1 if ahead else -1)
            if other not in here and 0 <= other < plan.stages:
                yield _message("pp", operation, layout.pp, floats // layout.tp)


def _tensor(
    layout: Layout,
    shapes: dict[int, Shapes],
    actions: Iterable[PlannedAction],
    tokens: int,
    config: TransformerConfig,
    summed: int,
) -> Iterator[Message]:
    """Before each half of a layer the sequence is gathered, after it summed and scattered.

    Backward it is the other way round. The embedding scatters, the head gathers, and the loss
    takes three numbers a token. Gradients of norms are sums over parts of the sequences, made
    `summed` times.
    """
    n, stream = layout.tp, tokens * config.d_model

    def calls(gathers: int, scatters: int) -> Iterator[Message]:
        yield from [_message("tp", "all_gather", n, stream // n)] * gathers
        yield from [_message("tp", "reduce_scatter", n, stream)] * scatters

    for action in actions:
        mine = shapes[action.stage]
        halves = 2 * _layers(mine)
        first, last = "embedding.weight" in mine, "head.weight" in mine
        if action.kind == "F":
            yield from calls(halves + last, halves + first)
            if last:
                yield _message("tp", "all_reduce", n, tokens)
                yield _message("tp", "all_reduce", n, 2 * tokens)
        elif _is_backward(action):
            yield from calls(halves + first, halves + last)
    for mine in shapes.values():
        for name, shape in mine.items():
            if "norm" in name:
                yield from [_message("tp", "all_reduce", n, prod(shape))] * summed


def _summed(layout: Layout, plan: PipelinePlan) -> int:
    """How often gradients are summed over `tp`: once, or whenever FSDP2 scatters them."""
    return plan.microbatches if layout.shard > 1 and plan.stages == 1 else 1


def _context(
    layout: Layout,
    shapes: dict[int, Shapes],
    actions: Iterable[PlannedAction],
    floats: int,
    shard: int,
) -> Iterator[Message]:
    """In each layer keys and values go round, and backward, with them, their gradients go home.

    Of the loss the ranks sum their numbers of tokens, and every gradient is averaged, or this
    rank's part of it. floats: of the keys of a microbatch that a rank has. shard: which part of a
    shared copy is this rank's.
    """
    n = layout.cp
    for action in actions:
        mine = shapes[action.stage]
        if action.kind == "F":
            rounds = n - 1
            if "head.weight" in mine:
                yield _message("cp", "all_reduce", n, 1)
        else:
            rounds = 2 * n - 1 if _is_backward(action) else 0
        for operation in ("send", "recv"):
            yield from [_message("cp", operation, n, 2 * floats)] * (rounds * _layers(mine))
    for mine in shapes.values():
        for first, *rest in mine.values():
            yield _message("cp", "all_reduce", n, _rows(first, layout.shard, shard) * prod(rest))


def _layers(shapes: Shapes) -> int:
    return len({name.split(".")[1] for name in shapes if name.startswith("layers.")})


def _replicas(
    layout: Layout, shapes: dict[int, Shapes], actions: list[PlannedAction], plan: PipelinePlan
) -> Iterator[Message]:
    """Every gradient averaged; or shards gathered before they are used, gradients scattered.

    One stage shards again after each microbatch; of several, torch's pipelining scatters once.
    """
    if layout.shard == 1:
        for mine in shapes.values():
            yield from (
                _message("dp", "all_reduce", layout.dp, prod(shape)) for shape in mine.values()
            )
        return
    n, groups = layout.shard, layout.dp // layout.shard
    for stage, mine in shapes.items():
        own = [action for action in actions if action.stage == stage]
        scatters = plan.microbatches if plan.stages == 1 else 1
        gathers = 2 * scatters if plan.stages == 1 else _gathers(own)
        for unit, floats in _units(mine, n, not plan.kind.splits_backward).items():
            times = scatters if unit == "root" else gathers
            yield from [_message("dp", "all_gather", n, floats)] * times
            yield from [_message("dp", "reduce_scatter", n, floats * n)] * scatters
            yield _message("dp", "all_reduce", groups, floats)


def _gathers(actions: Iterable[PlannedAction]) -> int:
    """How often FSDP2 gathers a layer: after a forward pass it is sharded again.

    After a backward pass it stays whole until the last one of the step.
    """
    times, whole = 0, False
    for action in actions:
        if not whole:
            times += 1
        whole = action.kind != "F"
    return times


def _units(shapes: Shapes, n: int, each_layer: bool) -> dict[str, int]:
    """What is gathered at once, and how many floats of it a rank keeps: FSDP2 fills up rows."""
    found: dict[str, int] = {}
    for name, shape in shapes.items():
        layered = each_layer and name.startswith("layers.")
        unit = name.split(".")[1] if layered else "root"
        found[unit] = found.get(unit, 0) + -(-shape[0] // n) * prod(shape[1:])
    return found


def _scalars(layout: Layout) -> Iterator[Message]:
    """The loss over the pipeline, replicas and parts, and the square of the norm over all."""
    for name in ("pp", "dp", "cp"):
        yield _message(name, "all_reduce", getattr(layout, name), 1)
    alone = [name for name in DIMENSIONS if getattr(layout, name) == layout.ranks]
    yield _message(alone[0] if alone else OTHER, "all_reduce", layout.ranks, 1)


def _shapes(
    config: TransformerConfig, plan: PipelinePlan, stage: int, layout: Layout, index: int
) -> Shapes:
    """The parameters of `stage` as rank `index` of the tensor dimension has them."""
    with torch.device("meta"):
        model = keep_stage(TransformerLM(config), stage, plan.stages)
    return {
        name: _part(name, tuple(p.shape), layout.tp, index) for name, p in model.named_parameters()
    }


def _part(name: str, shape: tuple[int, ...], n: int, index: int) -> tuple[int, ...]:
    module = name.split(".")[-2]
    if module in (*COLUMNS, "embedding", "head"):
        return _rows(shape[0], n, index), *shape[1:]
    if module in ROWS and len(shape) == 2:
        return shape[0], shape[1] // n
    return shape


def _rows(rows: int, n: int, index: int) -> int:
    """How many of `rows` are part `index` of `n`: torch's chunks, the last ones shorter."""
    most = -(-rows // n)
    return max(0, min(most, rows - index * most))
