"""Where Join does not go, and `equal_steps` does: more of what the ranks of test_join.py do."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.joining import RunningMean
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.parallel.replicas import average_gradients
from rankbook.training import equal_steps, train_uneven, uneven_reference, weigh_inputs
from tests.distributed import join_ranks
from tests.distributed.join_joinables import joinables
from tests.distributed.join_ranks import (
    ADAM,
    MOMENTUM,
    SGD,
    loss,
    make,
    mine,
    net,
    off,
    reference,
    shard,
)


def refused() -> dict:
    """What Join says to a sharded model."""
    said = {}
    for name, wrap in (
        ("FSDP1", lambda: FullyShardedDataParallel(net(), device_id=torch.device("cpu"))),
        ("FSDP2", lambda: fully_shard(net())),
    ):
        try:
            Join([wrap()])
        except AttributeError as error:
            said[name] = str(error)
    return said


def follow(model, stepper, epochs: int = 1, accumulate: int = 1) -> None:
    """Train by `equal_steps`."""
    for epoch in range(epochs):
        for (inputs, targets), scale, last in equal_steps(mine(epoch), accumulate):
            with nullcontext() if last else model.no_sync():
                (loss(model(inputs), targets) * scale).backward()
            if last:
                stepper.step()
                stepper.zero_grad()


def windows(size: int) -> list[list]:
    """The batches of `size` steps of each rank as one batch: what accumulating should equal."""
    return [
        [
            tuple(torch.cat(parts) for parts in zip(*batches[i : i + size], strict=True))
            for i in range(0, len(batches), size)
        ]
        for batches in map(shard, range(dist.get_world_size()))
    ]


def cured() -> dict:
    """`equal_steps` where Join does not go, or goes wrong: how far off."""
    right = reference("once")
    found = {}
    for name, wrap in (
        ("DDP", DistributedDataParallel),
        ("compiled DDP", lambda m: torch.compile(DistributedDataParallel(m), backend="eager")),
        ("FSDP2", fully_shard),
    ):
        model = wrap(net())
        follow(model, make(SGD, model.parameters()))
        found[name] = off(model, right)
    cpu = torch.device("cpu")
    model = FullyShardedDataParallel(net(), device_id=cpu, use_orig_params=True)
    follow(model, make(SGD, model.parameters()))
    with FullyShardedDataParallel.summon_full_params(model):
        found["FSDP1"] = off(model, right)
    model = DistributedDataParallel(net())
    follow(model, make(ADAM, model.parameters(), ZeroRedundancyOptimizer), epochs=2)
    found["ZeRO, two epochs"] = off(model, reference("once", ADAM, epochs=2))
    model = DistributedDataParallel(net())
    follow(model, make(MOMENTUM, model.parameters()), epochs=2)
    found["momentum, two epochs"] = off(model, reference("once", MOMENTUM, epochs=2))
    model = DistributedDataParallel(net())
    follow(model, make(SGD, model.parameters()), accumulate=2)
    found["accumulation"] = off(model, reference("once", of=windows(2)))
    model = DistributedDataParallel(net())
    stepper = make(SGD, model.parameters())
    for (inputs, targets), scale, _ in equal_steps(mine()):  # every batch counts alike
        stepper.zero_grad()
        (loss(model(inputs), targets) * float(scale > 0)).backward()
        stepper.step()
    found["as Join weighs"] = off(model, reference("join"))
    if dist.get_world_size() == 4:
        found["pipelines"] = pipelines()
    return found


def pipelines() -> float:
    """Two pipelines of two ranks with 2 and 3 batches: the model beside one process."""
    config = TransformerConfig(30, d_model=16, d_hidden=16, heads=2, layers=2, max_length=6)
    plan = PipelinePlan("1f1b", 2, 2, replicas=2)
    mesh = plan.mesh("cpu")
    index = mesh["pp"].get_local_rank()
    module = stage_module(config, index, 2, torch.device("cpu"))
    pipeline = Pipeline(plan, {index: module}, mesh, token_loss, config)
    text = torch.randint(30, (5, 4, 7), generator=torch.Generator().manual_seed(0))
    shards = [[(t[:, :-1], t[:, 1:]) for t in part] for part in (text[:2], text[2:])]
    dp = mesh["dp"].get_group()
    stepper = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    for (tokens, targets), scale, _ in equal_steps(shards[mesh["dp"].get_local_rank()], group=dp):
        stepper.zero_grad()
        pipeline.step(tokens, targets)
        for parameter in pipeline.parameters():
            parameter.grad *= scale
        average_gradients(pipeline.parameters(), dp)
        stepper.step()
    whole = TransformerLM(config)
    initialise(whole, 0)
    uneven_reference(whole, torch.optim.SGD(whole.parameters(), lr=0.1), shards, token_loss, "once")
    pairs = [(p, whole.get_parameter(name)) for name, p in pipeline.named_parameters()]
    return max((a - b).abs().max().item() for a, b in pairs)


def wrong_calls() -> list[str]:
    """What all ranks are told of calls that cannot be meant; they can go on afterwards."""
    rank, said = dist.get_rank(), []
    empty = shard(rank, 3 * rank)
    for call in (
        lambda: list(equal_steps(empty)),
        lambda: list(equal_steps(empty, accumulate=0)),
        lambda: train_uneven(net(), None, empty, loss, "pad"),
        lambda: train_uneven(net(), None, empty, loss, "joined"),
        lambda: weigh_inputs([1], "join"),
        lambda: RunningMean().mean,
    ):
        try:
            call()
        except ValueError as error:
            said.append(str(error))
    said.append(str(len(list(equal_steps([])))))
    return said


def everything() -> dict:
    """All that ends well, one after the other in the same processes."""
    names = "ways ddp drift nothing_on_rank_0 compiled throw even_without_join batch_norm"
    works = [getattr(join_ranks, name) for name in names.split()]
    return {work.__name__: work() for work in (*works, joinables, refused, cured, wrong_calls)}
