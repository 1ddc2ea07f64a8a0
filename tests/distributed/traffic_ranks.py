"""What the ranks of test_traffic.py do: each kind of parallelism once, counted."""

import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from rankbook.comm.counts import Sent
from rankbook.comm.traffic import traffic

WIDTH, HIDDEN, ROWS = 8, 16, 6


def everything() -> dict[str, list]:
    """What was counted, by name: rows of (dimension, operation, calls, bytes, ring bytes)."""
    found = {
        "DDP": _one_step(_mesh("dp"), nn.parallel.DistributedDataParallel(_net())),
        "FSDP x TP": _fsdp_and_tp(),
        "HSDP": _hsdp(),
        "pipeline": _pipeline(),
        "a thread": _a_thread(),
        "ours": _by_hand(),
    }
    return {name: _plain(sent) for name, sent in found.items()}


def _mesh(*names: str) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2) if len(names) == 2 else (4,), mesh_dim_names=names)


def _net() -> nn.Sequential:
    up, down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
    return nn.Sequential(up, nn.ReLU(), down)


def _one_step(mesh: DeviceMesh, model: nn.Module) -> Sent:
    x = torch.ones(ROWS, WIDTH, requires_grad=True)
    with traffic(mesh) as sent:
        model(x).square().mean().backward()
    return sent


def _fsdp_and_tp() -> Sent:
    mesh, net = _mesh("shard", "tp"), _net()
    parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return _one_step(mesh, fully_shard(net, mesh=mesh["shard"]))


def _hsdp() -> Sent:
    mesh = _mesh("replicate", "shard")
    return _one_step(mesh, fully_shard(_net(), mesh=mesh))


def _pipeline() -> Sent:
    """The second step: in the first one, stages tell each other their shapes."""
    mesh, rank = _mesh("pp"), dist.get_rank()
    stage = PipelineStage(nn.Linear(WIDTH, WIDTH), rank, 4, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 3, loss_fn=lambda y, t: (y - t).square().mean())
    inputs = (torch.ones(ROWS, WIDTH),) if rank == 0 else ()
    target = {"target": torch.ones(ROWS, WIDTH)} if rank == 3 else {}
    schedule.step(*inputs, **target)
    with traffic(mesh) as sent:
        schedule.step(*inputs, **target)
    return sent


def _a_thread() -> Sent:
    with traffic(_mesh("dp")) as sent:
        other = threading.Thread(target=dist.all_reduce, args=(torch.ones(3),))
        other.start()
        other.join()
    return sent


def _by_hand() -> Sent:
    """The book's own all_reduce round a ring, whose messages are counted one by one."""
    from rankbook.comm.all_reduce.ring import ring_all_reduce

    with traffic(_mesh("dp")) as sent:
        ring_all_reduce(torch.ones(48))
    return sent


def _plain(sent: Sent) -> list:
    return [list(row.values()) for row in sent.rows()]
