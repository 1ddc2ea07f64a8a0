"""elastic --sharded: parameters that are divided over the ranks, and the same run."""

import torch
from torch import nn

from rankbook.training.elastic import audit, elastic_step, losses, read_events
from tests.distributed.elastic_ranks import train
from tests.distributed.elastic_state_ranks import make
from tests.distributed.launch import run_ranks

# the last of five steps has 3 samples: with four ranks one of them has none
RUN = ["--samples", "23", "--global-batch", "5", "--save-every", "3"]


def arguments(folder: str, name: str, steps: int, *more: str) -> list[str]:
    where = ["--checkpoint", f"{folder}/{name}", "--events", f"{folder}/{name}.jsonl"]
    return [*RUN, *where, "--steps", str(steps), *more]


def runs(folder: str) -> list[bool]:
    """A run that is not interrupted, and one in two parts; whether parameters were sharded."""
    from torch.distributed.tensor import DTensor

    from tests.distributed.elastic_ranks import RUNS

    for name, steps in (("whole", 20), ("parts", 9), ("parts", 20), ("grows", 13)):
        train(arguments(folder, name, steps, "--sharded"))
    return [isinstance(p, DTensor) for run in RUNS for p in run.task.model.parameters()]


def grown(folder: str) -> None:
    train(arguments(folder, "grows", 20, "--sharded"))


def test_a_sharded_run_is_the_same_run_in_any_world(tmp_path):
    folder = str(tmp_path)
    train(arguments(folder, "alone", 20))
    for world_size, work in ((4, runs), (2, grown)):
        (store := tmp_path / f"{world_size}").mkdir()
        found = run_ranks(work, store, world_size, folder)
        assert work is grown or all(all(each) and len(each) == 16 for each in found)
    events = {n: read_events(tmp_path / f"{n}.jsonl") for n in ("alone", "whole", "parts", "grows")}
    alone = losses(events["alone"])
    assert losses(events["parts"]) == losses(events["whole"])  # the same bits
    for name in ("whole", "grows"):
        theirs = losses(events[name])
        assert list(theirs) == list(alone) and len(alone) == 20
        assert all(abs(theirs[step] - alone[step]) < 1e-5 for step in alone)
        assert all(e.exactly_once for e in list(audit(events[name], 23).values())[:-1])
    assert any(e["samples"] == [] for e in events["whole"] if e["event"] == "step")


def of_samples(model: nn.Module, share: torch.Tensor | None) -> torch.Tensor:
    share = torch.ones(1, 5) if share is None else share
    return (model(share) - share.sum(1, keepdim=True)).square().mean(1)


def clipped_and_uneven() -> list[float]:
    """Steps with shares of 7, 0 and 2 samples; then a batch that has none."""
    import torch.distributed as dist

    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    share = [rows[:7], None, rows[7:]][dist.get_rank()]
    model, optimizer = make(shard=True)
    found = [elastic_step(model, optimizer, of_samples, share, max_norm=0.5).loss for _ in range(4)]
    try:
        elastic_step(model, optimizer, of_samples, None)
    except ValueError as error:
        assert "no rank has a sample" in f"{error}"
        return found
    raise AssertionError("a step without samples")


def test_uneven_shares_and_a_clipped_gradient(tmp_path):
    found = run_ranks(clipped_and_uneven, tmp_path, 3)
    model, optimizer = make()
    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    alone = [elastic_step(model, optimizer, of_samples, rows, max_norm=0.5).loss for _ in range(4)]
    for rank in found:
        torch.testing.assert_close(rank, alone, rtol=0, atol=1e-5)
