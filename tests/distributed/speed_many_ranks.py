"""What the ranks of test_speed_many.py do: the same training under every strategy."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from rankbook.models.classifier import Classifier
from rankbook.speed import make_batch, size, synthetic
from rankbook.speed.init_model import init_model
from rankbook.speed.lightning_runner import fit
from rankbook.speed.strategies import STRATEGIES, prepare
from rankbook.speed.strategies.fabric import make_fabric
from rankbook.speed.strategies.lightning import fit_on_ranks, refusals
from rankbook.speed.strategies.loops import on_fabric, plain
from rankbook.speed.strategies.memory import measured

SMALL = size("cpu", layers=2, d_model=32, d_hidden=64, vocab_size=300, max_length=48)
WIDE = size("cpu", layers=1, d_model=32, d_hidden=64, vocab_size=3000, max_length=48)  # embedding
LR = 1e-2  # so large that losses move
STEPS, BATCH = 5, 12


def strategies() -> dict:
    """By strategy: the losses of some steps, the loss after one more of three unequal parts and
    what it sent, and bytes of this rank; at one process's global batches."""
    return {name: _train(name) for name in STRATEGIES}


def ddp_settings() -> dict:
    """As `strategies`, of DDP with other settings, and of a model that is mostly one parameter."""
    return {
        "no view": _train("ddp", as_view=False),
        "small buckets": _train("ddp", bucket_mb=0.01),
        "wide": _train("zero1", WIDE),
        "wide fsdp2": _train("fsdp2", WIDE),
        "wide deepspeed2": _train("deepspeed2", WIDE),
    }


def lightning() -> dict:
    """Losses under Lightning: the Trainer on one device and on all, and Fabric's loop."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    stream = DataLoader([batch.share(rank, ranks) for batch in _batches()], batch_size=None)
    rank_losses = on_fabric(*_fresh(), stream, make_fabric())
    losses = torch.stack(rank_losses)
    dist.all_reduce(losses)
    noisy = fit(*_fresh(), _batches(), epochs=2, checkpoint=True, log_every=1, deterministic=True)
    return {
        "plain": torch.stack(plain(*_fresh(), _batches(), "cpu")).tolist(),
        "fabric": (losses / ranks).tolist(),
        "single": fit(*_fresh(), _batches()).losses,
        "files": fit(*_fresh(), _batches()).files,
        "thirds": fit(*_fresh(), [p for b in _batches() for p in b.split(3)], accumulate=3).losses,
        "ddp": fit_on_ranks(_model(), _batches(), LR).losses,
        "fsdp2": fit_on_ranks(_model(), _batches(), LR, strategy="fsdp2").losses,
        "noisy": noisy.losses,
        "noisy files": noisy.files,
        "still deterministic": torch.are_deterministic_algorithms_enabled(),
        "group is there": dist.is_initialized(),
    }


def refused() -> dict:
    """What Lightning refuses, and sentences of wrong use of ours."""
    return {
        "lightning": [(r.tool, r.asked, r.sentence) for r in refusals()],
        "parts": _told(lambda: prepare("deepspeed1", _model()).step(*_batches()[:2])),
        "rows": _told(lambda: prepare("ddp", _model()).step(make_batch(*_reviews(5)))),
        "16-mixed": _told(lambda: fit(*_fresh(), _batches(), precision="16-mixed")),
        "trainer": _told(lambda: fit_on_ranks(_model(), _batches(), strategy="zero1")),
    }


def _train(name: str, of=SMALL, **options) -> dict:
    trained = prepare(name, _model(of), LR, **options)
    losses = [trained.step(batch).item() for batch in _batches(of)]
    found = {"losses": losses, "bytes": vars(measured(trained))}
    sizes = [p.numel() for p in _model(of).parameters()]
    found |= {"parameters": sum(sizes), "largest": max(sizes)}
    if not name.startswith("deepspeed"):
        found |= _accumulate(trained, of)
    trained.close()
    return found


def _accumulate(trained, of) -> dict:
    found = {}
    for many, batches in (("whole", _batches(of)[:1]), ("parts", _parts(of))):
        if trained.traffic:
            trained.traffic.reset()
        found[many] = trained.step(*batches).item()
        if trained.traffic:
            found[f"{many} sent"] = (trained.traffic.all_reduces, trained.traffic.bytes)
    found["after"] = trained.step(_batches(of)[1]).item()
    return found


def _model(of=SMALL) -> Classifier:
    return init_model(of, seed=1)[0]


def _fresh() -> tuple:
    model = _model()
    return model, torch.optim.Adam(model.parameters(), lr=LR)


def _reviews(rows: int, of=SMALL, first: int = 0) -> tuple:
    return synthetic(STEPS * BATCH, of), list(range(first, first + rows)), "longest of batch"


def _batches(of=SMALL) -> list:
    return [make_batch(*_reviews(BATCH, of, i * BATCH)) for i in range(STEPS)]


def _parts(of=SMALL) -> list:
    """The first batch in three unequal parts."""
    return [make_batch(*_reviews(rows, of, at)) for at, rows in ((0, 6), (6, 4), (10, 2))]


def _told(call) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""
