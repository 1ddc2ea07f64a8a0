"""What the ranks of test_data_parallel_chapter.py do; everything returned is plain."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from rankbook.parallel.replicas import OverlapRecorder

WHOLE = slice(None)
MIB = 2**20


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))


def batch(step: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 16, generator=torch.Generator().manual_seed(step))
    return x, x[:, :4].sin()


def mine() -> slice:
    return slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)


def gradients(of: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in of.parameters()])


def values(of: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(of.parameters()).detach()


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


def apart(tensor: torch.Tensor) -> float:
    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, tensor)
    return max(off(tensor, other) for other in everyone)


def combine(of: nn.Module, divide: bool = True) -> None:
    for p in of.parameters():
        dist.all_reduce(p.grad)
        if divide:
            p.grad /= dist.get_world_size()


def trained(of: nn.Module, rows: slice, combine=lambda model: None, kind=torch.optim.SGD, lr=0.2):
    """The parameters after each of 30 steps, and their losses averaged over the ranks."""
    optimizer, path, losses = kind(of.parameters(), lr=lr), [], []
    for step in range(30):
        x, y = (tensor.to(values(of).dtype) for tensor in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(of(x[rows]), y[rows])
        loss.backward()
        combine(of)
        optimizer.step()
        dist.all_reduce(loss.detach())
        losses.append(loss.item() / dist.get_world_size())
        path.append(values(of))
    return torch.stack(path), losses


def trainings() -> dict[str, list[float]]:
    """Each way to train: how far ranks are apart, and off from one process; the last loss."""
    rank, summed = dist.get_rank(), lambda model: combine(model, divide=False)
    adam = {"kind": torch.optim.Adam, "lr": 0.01}
    runs = {
        "one process": trained(model(), WHOLE),
        "alone": trained(model(), mine()),
        "other start": trained(model(rank), mine(), combine),
        "only summed": trained(model(), mine(), summed),
        "by hand": trained(model(), mine(), combine),
        "DDP": trained(DDP(model(rank)), mine()),
        "DDP's module": trained(DDP(model()).module, mine()),
    }
    control = runs["one process"][0][-1]
    results = {
        name: [apart(path[-1]), off(path[-1], control), losses[-1]]
        for name, (path, losses) in runs.items()
    }
    with_adam, adams = (trained(model(), mine(), summed, **adam)[0][-1],
                        trained(model(), WHOLE, **adam)[0][-1])  # fmt: skip
    exact = trained(DDP(model(rank).double()), mine())[0] - trained(model().double(), WHOLE)[0]
    doubled = trained(model(), WHOLE, lr=0.4)[0]
    return results | {
        "Adam, only summed": [apart(with_adam), off(with_adam, adams)],
        "float64": exact.abs().max().item(),
        "only summed, from twice the rate": off(runs["only summed"][0], doubled),
        "eight times": trained(model(), WHOLE, lr=1.6)[1][-1],
        "gaps": [apart(parameters) for parameters in runs["other start"][0]],
        "module is alone": torch.equal(runs["alone"][0], runs["DDP's module"][0]),
    }


def unfrozen(wrap_again: bool) -> list[float]:
    """How far each parameter is apart, where the first layer was frozen when DDP was made."""
    of = model()
    of[0].requires_grad_(False)
    ddp, optimizer = DDP(of), torch.optim.SGD(of.parameters(), lr=0.2)
    for step in range(30):
        if step == 10:
            of[0].requires_grad_(True)
            ddp = DDP(of) if wrap_again else ddp
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x[mine()]), y[mine()]).backward()
        optimizer.step()
    return [apart(parameter.detach()) for parameter in of.parameters()]


def shares() -> dict[str, float]:
    """Gradients of 4 and 3 rows, by each way to weigh them: how far off from one process."""
    (x, y), rank = batch(0, rows=7), dist.get_rank()
    rows = slice(0, 4) if rank == 0 else slice(4, 7)
    mean, total = nn.MSELoss(), nn.MSELoss(reduction="sum")

    def weighted(output, target):
        return mean(output, target) * 2 * len(target) / len(x)

    def compared(loss_of, whole_loss, factor=1):
        ddp, whole = DDP(model()), model()
        loss_of(ddp(x[rows]), y[rows]).backward()
        whole_loss(whole(x), y).backward()
        return off(gradients(ddp) * factor, gradients(whole))

    return {
        "mean": compared(mean, mean),
        "weighted": compared(weighted, mean),
        "sum": compared(total, total),
        "sum, times 2": compared(total, total, factor=2),
    }


def normalised(kind: type) -> list[float]:
    """Gradient off from one process; the first buffer's difference between the ranks, if any,
    after a step and after the next forward pass."""

    def layers():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 32), kind(32), nn.Tanh(), nn.Linear(32, 4))

    (x, y), ddp, whole = batch(0), DDP(layers()), layers()
    nn.functional.mse_loss(ddp(x[mine()]), y[mine()]).backward()
    nn.functional.mse_loss(whole(x), y).backward()
    buffers = [buffer for buffer in ddp.buffers() if buffer.is_floating_point()][:1]
    after = [apart(buffer) for buffer in buffers]
    ddp.eval()(x[mine()])  # copies rank 0's, and makes no new ones
    return [off(gradients(ddp), gradients(whole)), *after, *map(apart, buffers)]


def sync_batch_norm() -> str:
    """What it says to a tensor on a CPU."""
    try:
        nn.SyncBatchNorm(4)(torch.randn(2, 4))
    except ValueError as error:
        return str(error)
    return ""


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = model()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.first(self.body(x))


def unused(**options) -> tuple[float, str]:
    """The first step's gradients: how far apart. What the second forward pass raises."""
    ddp, (x, y) = DDP(TwoHeads(), **options), batch(0)
    nn.functional.mse_loss(ddp(x[mine()]), y[mine()]).backward()
    difference = apart(ddp.module.first.weight.grad)
    try:
        ddp(x[mine()])
    except RuntimeError as error:
        return difference, str(error)
    return difference, ""


def steps() -> dict:
    return {
        "trainings": trainings(),
        "shares": shares(),
        "BatchNorm": normalised(nn.BatchNorm1d),
        "LayerNorm": normalised(nn.LayerNorm),
        "SyncBatchNorm": sync_batch_norm(),
        "unfrozen": unfrozen(wrap_again=False),
        "wrapped again": unfrozen(wrap_again=True),
        "unused": unused(),
        "find_unused": unused(find_unused_parameters=True),
    }


def deep() -> nn.Module:
    """Four layers of 1 MiB, without biases, so that a limit is met exactly."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))


def recorded(limit: int | None) -> dict:
    """Three backward passes under the recorder, and whether they changed anything."""
    plain, watched = (DDP(deep(), bucket_cap_mb=limit) for _ in range(2))
    recorder = OverlapRecorder(watched)
    x = torch.randn(8, 512, generator=torch.Generator().manual_seed(dist.get_rank()))
    passes, equal = [], True
    for _ in range(3):
        for each in (plain, watched):
            each.zero_grad()
        plain(x).square().mean().backward()
        loss = watched(x).square().mean()
        with recorder.backward():
            loss.backward()
        equal &= torch.equal(gradients(plain), gradients(watched))
        passes.append([plain_pass(each) for each in recorder.gather()])
    own, count = plain_pass(recorder.recorded(0)), recorder.passes
    watched(x).square().mean().backward()  # outside of the with block: not recorded
    assert recorder.passes == count
    return {"equal": equal, "passes": passes, "own": own, "errors": errors(recorder, watched)}


def plain_pass(each) -> dict:
    return each._asdict() | {
        "gradients": [list(ready) for ready in each.gradients],
        "buckets": [list(bucket) for bucket in each.buckets],
    }


def errors(recorder: OverlapRecorder, ddp: DDP) -> list[str]:
    found = []
    for attempt in (lambda: recorder.recorded(3), lambda: OverlapRecorder(ddp)):
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found
