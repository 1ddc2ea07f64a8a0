"""Checkpoints: an exact copy, whole or not at all, and no code in them."""

import os
import pickle
import signal
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint import save as save_tensors

from rankbook.models import TransformerConfig
from rankbook.parallel import Pipeline, PipelinePlan, stage_module
from rankbook.training import (
    batchify,
    checkpoint,
    load_checkpoint,
    save_checkpoint,
    seed_step,
    token_loss,
    train_step,
    training_batch,
)
from tests.distributed.launch import run_ranks

SIZES = {"vocab_size": 30, "d_model": 16, "d_hidden": 16, "heads": 2, "layers": 4}
CONFIG = TransformerConfig(**SIZES, dropout=0.2, max_length=8)
SOURCE = batchify(torch.arange(400) * 7 % 30, 8)


def make(stages: int = 2, config: TransformerConfig = CONFIG, kind=torch.optim.AdamW):
    plan = PipelinePlan("interleaved1f1b", 1, 4, stages=stages)
    mesh = plan.mesh("cpu")
    modules = {i: stage_module(config, i, stages, torch.device("cpu")) for i in range(stages)}
    pipeline = Pipeline(plan, modules, mesh, token_loss, config)
    options = {} if kind is torch.optim.AdamW else {"momentum": 0.9}
    return pipeline, kind(pipeline.parameters(), lr=1e-2, **options)


def train(pipeline, optimizer, steps) -> list[float]:
    losses = []
    for step in steps:
        seed_step(3, step, rank=0)
        loss, _ = train_step(pipeline, optimizer, *training_batch(SOURCE, step, 8), 0.5)
        losses.append(loss.item())
    return losses


def tensors(pipeline) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in pipeline.named_parameters()}


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_resumed_run_is_the_uninterrupted_one_bit_by_bit(alone, tmp_path, kind):
    """With dropout: its masks belong to the step, not to the run."""
    whole = make(kind=kind)
    losses = train(*whole, range(3))
    save_checkpoint(tmp_path / "latest", *whole, step=3, best=4.1)
    losses += train(*whole, range(3, 6))

    torch.manual_seed(99)  # whatever was drawn before
    resumed = make(kind=kind)
    assert load_checkpoint(tmp_path / "latest", *resumed) == {"step": 3.0, "best": 4.1}
    assert train(*resumed, range(3, 6)) == losses[3:]
    after = tensors(resumed[0])
    assert all(torch.equal(value, after[name]) for name, value in tensors(whole[0]).items())
    forgetful = make(kind=kind)  # the optimizer's state does count
    load_checkpoint(tmp_path / "latest", forgetful[0])
    assert train(*forgetful, range(3, 6))[1:] != losses[4:]


def test_the_best_model_is_a_copy(alone, tmp_path):
    pipeline, optimizer = make()
    best = tensors(pipeline)
    save_checkpoint(tmp_path / "best", pipeline)
    train(pipeline, optimizer, range(2))
    assert not torch.equal(best["head.weight"], tensors(pipeline)["head.weight"])
    other, _ = make(stages=4)  # the same names, in other stages
    train(other, torch.optim.SGD(other.parameters(), lr=1.0), range(1))
    load_checkpoint(tmp_path / "best", other)
    assert all(torch.equal(value, best[name]) for name, value in tensors(other).items())


def test_an_optimizer_that_keeps_nothing_goes_on_too(alone, tmp_path):
    pipeline, _ = make()
    plain = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    train(pipeline, plain, range(1))
    save_checkpoint(tmp_path / "latest", pipeline, plain)
    expected = train(pipeline, plain, range(1, 3))
    load_checkpoint(tmp_path / "latest", pipeline, plain)
    assert train(pipeline, plain, range(1, 3)) == expected


def test_only_the_newest_stays(alone, tmp_path):
    pipeline, _ = make()
    (tmp_path / "best-of-all").mkdir()  # somebody else's
    for step in range(3):
        save_checkpoint(tmp_path / "best", pipeline, step=step)
        save_checkpoint(tmp_path / "latest", pipeline, step=10 + step)
    assert (tmp_path / "best-of-all").is_dir()
    assert len(list(tmp_path.iterdir())) == 5  # and two links, and what they point to
    assert load_checkpoint(tmp_path / "best", pipeline) == {"step": 2.0}
    assert load_checkpoint(tmp_path / "latest", pipeline) == {"step": 12.0}


def killed_while_saving(path: str) -> None:
    """Save one checkpoint; of the second, only the tensors are written when the process dies."""
    pipeline, _ = make()
    save_checkpoint(Path(path), pipeline, step=1)

    def die(*args, **options):
        save_tensors(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save_tensors = die
    save_checkpoint(Path(path), pipeline, step=2)


def test_a_kill_in_the_middle_loses_nothing(alone, tmp_path):
    (tmp_path / "ranks").mkdir()
    with pytest.raises(Exception, match="SIGKILL"):
        run_ranks(killed_while_saving, tmp_path / "ranks", 1, str(tmp_path / "kept" / "latest"))
    pipeline, _ = make()
    assert len(list((tmp_path / "kept").iterdir())) == 3  # what was begun is there, and not used
    assert load_checkpoint(tmp_path / "kept" / "latest", pipeline) == {"step": 1.0}
    save_checkpoint(tmp_path / "kept" / "latest", pipeline, step=3)
    assert len(list((tmp_path / "kept").iterdir())) == 2  # and is cleared away by the next


def test_what_does_not_suit_is_one_sentence(alone, tmp_path):
    pipeline, optimizer = make()
    save_checkpoint(tmp_path / "best", pipeline)
    with pytest.raises(ValueError, match=r"there is no checkpoint at .*none; name the one"):
        load_checkpoint(tmp_path / "none", pipeline)
    with pytest.raises(ValueError, match="holds a model without an optimizer"):
        load_checkpoint(tmp_path / "best", pipeline, optimizer)
    wider, _ = make(config=TransformerConfig(**SIZES | {"vocab_size": 31}))
    with pytest.raises(ValueError, match=r"weight is \(30, 16\) in .* \(31, 16\) in this"):
        load_checkpoint(tmp_path / "best", wider)
    deeper, _ = make(config=TransformerConfig(**SIZES | {"layers": 5}))
    with pytest.raises(ValueError, match=r"has no parameter layers\.4\.norm1\.weight"):
        load_checkpoint(tmp_path / "best", deeper)


class Evil:
    def __reduce__(self):
        return os.system, ("touch $EVIL",)


def test_no_code_is_run_from_a_checkpoint(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    pipeline, _ = make()
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match=r"a checkpoint names posix.system"):
        load_checkpoint(tmp_path / "table", pipeline)
    # an object that is no tensor: torch would unpickle it, whatever it is
    save_tensors({"value.x": Evil()}, storage_writer=FileSystemWriter(tmp_path / "object"))
    with pytest.raises(ValueError, match="BytesStorageMetadata, which none of ours does"):
        load_checkpoint(tmp_path / "object", pipeline)
    assert not (tmp_path / "evil").exists()


def test_a_damaged_table_is_one_sentence(alone, tmp_path):
    pipeline, _ = make()
    save_checkpoint(tmp_path / "best", pipeline)
    table = tmp_path / "best" / ".metadata"
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"the checkpoint at .* is damaged"):
        load_checkpoint(tmp_path / "best", pipeline)
