"""The steps of prove_ranks.py made wrong, each in one place."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.nn.parallel import DistributedDataParallel as DDP

from rankbook.prove import prove
from tests.distributed.prove_ranks import (
    CUT,
    Net,
    Stage,
    a_batch,
    alone,
    averaged,
    by_hand,
    four_of_replicas_of_tensor_parallel,
    mean_of_all,
    of_sequence_parallel,
    on_replica,
    on_share,
    proof,
    square,
    twin_name,
    two_stages,
    whole,
)


def of_other_values():
    """Each rank has drawn its own."""
    return proof(mean_of_all, whole(seed=dist.get_rank()))


def of_a_lost_layer():
    model = whole()
    del model.blocks[1]
    return proof(mean_of_all, model)


def of_nothing_exchanged():
    return proof(on_share, whole())


def of_a_sum():
    def step(model, batch):
        loss = on_share(model, batch)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        return loss

    return proof(step, whole())


def of_a_loss_that_is_divided():
    return proof(lambda model, batch: mean_of_all(model, batch) / 2, whole())


def of_uneven_shares():
    """A mean of means: rank 0 has one row, rank 1 has seven."""

    def step(model, batch):
        mine = slice(0, 1) if dist.get_rank() == 0 else slice(1, None)
        loss = alone(model, [rows[mine] for rows in batch])
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= 2
        return loss

    return proof(step, whole())


def of_a_missing_gradient():
    def step(model, batch):
        loss = mean_of_all(model, batch)
        if dist.get_rank() == 1:
            model.blocks[0].up.weight.grad = None
        return loss

    return proof(step, whole())


def of_a_replica_that_differs():
    def step(model, batch):
        loss = mean_of_all(model, batch)
        if dist.get_rank() == 1:
            model.blocks[0].up.weight.grad[0] += 0.01
        return loss

    return proof(step, whole())


def of_a_lost_backward_sum():
    """Column-parallel layers whose input's gradient stays a part of the sum."""
    return proof(
        alone, by_hand(copied=lambda x, _: x), layout=CUT, mesh=init_device_mesh("cpu", (2,))
    )


def of_an_uncut_stream():
    return of_sequence_parallel(without=("embedding", "head"))


class TiedStage(Stage):
    """Of a model whose head is its embedding."""

    def __init__(self, index: int):
        super().__init__(index)
        if index == 1:
            self.second.weight = nn.Parameter(whole().embedding.weight.detach().clone())


def of_tied_stages():
    twin = whole()
    twin.head.weight = twin.embedding.weight
    return proof(two_stages, TiedStage(dist.get_rank()), twin=twin, names=twin_name)


def of_clipping_by_parts():
    stage = Stage(dist.get_rank())
    return proof(two_stages, stage, names=twin_name, max_norm=0.1)


def of_a_clip_that_forgets_a_part():
    def clip(parameters, max_norm):
        norm = nn.utils.get_total_norm([p.grad for p in parameters])
        nn.utils.clip_grads_with_norm_(parameters[1:], max_norm, norm)
        return norm

    return proof(mean_of_all, whole(), max_norm=0.1, clip=clip)


def of_another_rate():
    model = whole()
    rate = 0.2 if dist.get_rank() == 1 else 0.1
    return proof(mean_of_all, model, torch.optim.SGD(model.parameters(), rate))


def of_an_early_optimizer():
    """Made before the parameters are sharded: it holds the old ones."""
    model = whole()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    fully_shard(model)
    return proof(on_share, model, optimizer)


def of_a_second_step():
    """An error from the second step on."""
    steps = []

    def step(model, batch):
        steps.append(1)
        loss = mean_of_all(model, batch)
        if len(steps) > 1:
            model.head.bias.grad *= 3
        return loss

    return proof(step, whole(), steps=2)


class Normed(Net):
    """With batch normalisation, which sees a share only."""

    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm1d(Net().head.out_features)

    def forward(self, ids):
        return self.batch(super().forward(ids).flatten(0, 1)).unflatten(0, ids.shape)


def normed() -> Normed:
    torch.manual_seed(0)
    return Normed()


def of_batch_norm():
    return proof(on_share, DDP(normed()), twin=normed())


def of_dropout():
    def net():
        torch.manual_seed(0)
        model = Net()
        model.head = nn.Sequential(nn.Dropout(0.5), model.head)
        return model

    return proof(mean_of_all, net(), twin=net())


def of_not_a_number():
    def step(model, batch):
        loss = mean_of_all(model, batch)
        model.head.bias.grad[0] = float("nan")
        return loss

    return proof(step, whole())


def of_no_rate():
    model = whole()
    return proof(mean_of_all, model, torch.optim.SGD(model.parameters(), 0.0))


# what cannot be compared, or raises -----------------------------------------------------------


def of_other_batches():
    ids, targets = a_batch()
    return proof(mean_of_all, whole(), batch=(ids.roll(dist.get_rank(), 0), targets))


def of_other_twins():
    return proof(mean_of_all, whole(), twin=whole(seed=dist.get_rank()))


def of_an_unsaid_cut():
    return proof(alone, by_hand())


def of_a_pattern_for_nothing():
    return proof(alone, by_hand(), layout={"*.upp": Shard(0)}, mesh=init_device_mesh("cpu", (2,)))


def of_unknown_names():
    return proof(two_stages, Stage(dist.get_rank()))


def of_one_that_raises():
    def step(model, batch):
        if dist.get_rank() == 1:
            raise ValueError("no more rows\nand so on")
        return on_share(model, batch)

    return proof(step, whole())


def of_a_clip_that_raises():
    def clip(parameters, max_norm):
        raise TypeError("mixed")

    return proof(mean_of_all, whole(), max_norm=1.0, clip=clip)


def of_a_twin_that_steps_the_part():
    model = whole()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(model, batch):
        loss = alone(model, batch)
        optimizer.step()
        return loss

    return prove(step, model, optimizer, a_batch(), twin=whole())


# on four ranks --------------------------------------------------------------------------------


def four_of_replicas_that_are_not_averaged():
    return four_of_replicas_of_tensor_parallel(then=None)


def four_of_half_a_tensor():
    """The ranks of tp that should have the second half have the first."""
    mesh = square()
    model = by_hand(group=mesh["tp"].get_group())
    index = mesh["tp"].get_local_rank()
    cuts = {
        "*.up.*": lambda t: t.chunk(2)[0 * index],
        "*.down.weight": lambda t: t.chunk(2, 1)[0 * index],
    }
    with torch.no_grad():
        for block, right in zip(model.blocks, whole().blocks, strict=True):
            block.up.weight.copy_(right.up.weight.chunk(2)[0])
            block.up.bias.copy_(right.up.bias.chunk(2)[0])
            block.down.weight.copy_(right.down.weight.chunk(2, 1)[0])
    return proof(on_replica(mesh, averaged), model, layout=cuts)
