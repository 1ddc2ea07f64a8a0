"""Checkpoints: an exact copy, whole or not at all, and no code in them."""

import json
import os
import pickle
import signal
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint import save as save_tensors
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata, StorageMeta

from rankbook.models import TransformerConfig, TransformerLM, token_loss
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.training import batchify, seed_step, train_step, training_batch
from rankbook.training.checkpoint import CheckpointError, PipelineCheckpoints, capture_stages
from rankbook.training.checkpoint.plain import sha256
from rankbook.training.checkpoint.reading import SafeReader
from rankbook.training.checkpoint.sharded import _Writer
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
    checkpoints = PipelineCheckpoints(tmp_path)
    checkpoints.save(3, capture_stages(*whole, {"best": 4.1}))
    losses += train(*whole, range(3, 6))

    torch.manual_seed(99)  # whatever was drawn before
    resumed = make(kind=kind)
    saved = checkpoints.newest()
    assert saved.step == 3 and saved.load_into(*resumed) == {"best": 4.1}
    assert train(*resumed, range(3, 6)) == losses[3:]
    after = tensors(resumed[0])
    assert all(torch.equal(value, after[name]) for name, value in tensors(whole[0]).items())
    forgetful = make(kind=kind)  # the optimizer's state does count
    saved.load_into(forgetful[0])
    assert train(*forgetful, range(3, 6))[1:] != losses[4:]


def test_the_best_model_is_a_copy(alone, tmp_path):
    pipeline, optimizer = make()
    best = tensors(pipeline)
    checkpoints = PipelineCheckpoints(tmp_path)
    checkpoints.save(0, capture_stages(pipeline))
    train(pipeline, optimizer, range(2))
    assert not torch.equal(best["head.weight"], tensors(pipeline)["head.weight"])
    other, _ = make(stages=4)  # the same names, in other stages
    train(other, torch.optim.SGD(other.parameters(), lr=1.0), range(1))
    whole = TransformerLM(CONFIG)  # and in none
    for model in (other, whole):
        checkpoints.newest().load_into(model)
        assert all(torch.equal(value, best[name]) for name, value in tensors(model).items())
    assert len(tensors(whole)) == len(best)


def test_an_optimizer_that_keeps_nothing_goes_on_too(alone, tmp_path):
    pipeline, _ = make()
    plain = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    train(pipeline, plain, range(1))
    checkpoints = PipelineCheckpoints(tmp_path)
    checkpoints.save(1, capture_stages(pipeline, plain))
    expected = train(pipeline, plain, range(1, 3))
    checkpoints.newest().load_into(pipeline, plain)
    assert train(pipeline, plain, range(1, 3)) == expected


def test_only_the_newest_stays(alone, tmp_path):
    pipeline, _ = make()
    (tmp_path / "best-of-all").mkdir()  # somebody else's
    latest, best = (PipelineCheckpoints(tmp_path / name, keep=1) for name in ("latest", "best"))
    for step in range(3):
        best.save(step, capture_stages(pipeline))
        latest.save(10 + step, capture_stages(pipeline))
    assert len(list(tmp_path.iterdir())) == 3
    for checkpoints, step in ((best, 2), (latest, 12)):
        (path,) = checkpoints.folder.iterdir()
        assert checkpoints.newest().path == path and checkpoints.newest().step == step


def killed_while_saving(folder: str) -> None:
    """Save one checkpoint; of the second, only the tensors are written when the process dies."""
    pipeline, _ = make()
    checkpoints = PipelineCheckpoints(Path(folder), keep=1)
    checkpoints.save(1, capture_stages(pipeline))
    _Writer.finish = lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL)
    checkpoints.save(2, capture_stages(pipeline))


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_nothing(alone, tmp_path):
    (tmp_path / "ranks").mkdir()
    with pytest.raises(Exception, match="SIGKILL"):
        run_ranks(killed_while_saving, tmp_path / "ranks", 1, str(tmp_path / "kept"))
    pipeline, _ = make()
    checkpoints = PipelineCheckpoints(tmp_path / "kept", keep=1)
    assert len(list((tmp_path / "kept").iterdir())) == 2  # what was begun is there, and not used
    assert checkpoints.newest().step == 1
    checkpoints.newest().load_into(pipeline)
    checkpoints.save(3, capture_stages(pipeline))
    assert len(list((tmp_path / "kept").iterdir())) == 1  # and is cleared away by the next


@pytest.mark.skipif(sys.platform != "linux", reason="what is synced is read from /proc")
def test_all_of_it_is_on_the_disk_before_it_is_seen(alone, tmp_path, monkeypatch):
    """Every file, then the folder that they are in; then its name, and the folder of that."""
    calls, fsync, rename = [], os.fsync, Path.rename

    def synced(descriptor):
        calls.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def renamed(source, target):
        if Path(target).parent == tmp_path:
            calls.append(Path("seen"))
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    checkpoints = PipelineCheckpoints(tmp_path)
    checkpoints.save(1, capture_stages(*make()))
    files = {path.name for path in checkpoints.newest().path.iterdir()}
    assert files == {"__0_0.distcp", ".metadata", "plain.pt", "contents.json"}
    *before, folder = calls[: calls.index(Path("seen"))]
    for name in files:  # under this name, or as one that grows
        assert any(name in path.name for path in before), name
    assert folder.parent == tmp_path and folder.name.startswith(".step-")
    assert calls[calls.index(Path("seen")) + 1 :] == [tmp_path]


def test_what_does_not_suit_is_one_sentence(alone, tmp_path):
    pipeline, optimizer = make()
    checkpoints = PipelineCheckpoints(tmp_path)
    assert checkpoints.newest() is None
    checkpoints.save(0, capture_stages(pipeline))
    saved = checkpoints.newest()
    with pytest.raises(ValueError, match="saved with no optimizer, and this run has AdamW; use"):
        saved.load_into(pipeline, optimizer)
    wider, _ = make(config=TransformerConfig(**SIZES | {"vocab_size": 31}))
    with pytest.raises(ValueError, match=r"its .*weight is \(30, 16\), here it is \(31, 16\); use"):
        saved.load_into(wider)
    deeper, _ = make(config=TransformerConfig(**SIZES | {"layers": 5}))
    with pytest.raises(
        ValueError, match=r"another model: layers\.4\..* is not in it; use the same"
    ):
        saved.load_into(deeper)
    checkpoints.save(1, capture_stages(pipeline, optimizer))
    other = torch.optim.SGD(pipeline.parameters())
    with pytest.raises(ValueError, match="saved with AdamW optimizer, and this run has SGD; use"):
        checkpoints.newest().load_into(pipeline, other)


class Evil:
    def __reduce__(self):
        return os.system, ("touch $EVIL",)


def test_no_code_is_run_from_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match=r"a checkpoint names posix.system"):
        SafeReader(tmp_path / "table").read_metadata()
    # an object that is no tensor: torch would unpickle it, whatever it is
    save_tensors({"value.x": Evil()}, storage_writer=FileSystemWriter(tmp_path / "object"))
    with pytest.raises(ValueError, match="BytesStorageMetadata, which none of ours does"):
        SafeReader(tmp_path / "object").read_metadata()
    assert not (tmp_path / "evil").exists()


class Asked:
    """What Python asks of a kind while it reads: `getattr(kind, name)`."""

    def __init__(self, *asked):
        self.asked = asked

    def __reduce__(self):
        return getattr, self.asked


def test_a_member_of_an_enumeration_is_read_as_python_3_11_2_writes_it(tmp_path):
    def table(*asked) -> None:
        contents = Metadata({}, storage_meta=StorageMeta())
        contents.planner_data = Asked(*asked)
        (tmp_path / ".metadata").write_bytes(pickle.dumps(contents))

    table(_MEM_FORMAT_ENCODING, "TORCH_PRESERVE_FORMAT")
    read = SafeReader(tmp_path).read_metadata()
    assert read.planner_data is _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT
    for kind, name in ((Metadata, "__init__"), (_MEM_FORMAT_ENCODING, "mro")):
        table(kind, name)
        with pytest.raises(ValueError, match=f"asks for '{name}' of .*, which none of ours does"):
            SafeReader(tmp_path).read_metadata()


@pytest.mark.parametrize("name", [".metadata", "plain.pt"])
def test_code_in_a_checkpoint_whose_sums_are_right_is_not_run(alone, tmp_path, monkeypatch, name):
    """Whoever can write there can add up, too."""
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    pipeline, _ = make()
    said = []
    checkpoints = PipelineCheckpoints(tmp_path / "kept", say=said.append)
    checkpoints.save(1, capture_stages(pipeline))
    (path,) = checkpoints.paths()
    (path / name).write_bytes(pickle.dumps(Evil()))
    sums = {file.name: sha256(file) for file in path.iterdir() if file.name != "contents.json"}
    (path / "contents.json").write_text(json.dumps(sums))
    path.rename(path.with_name(checkpoints.name(1, sha256(path / "contents.json"))))
    if name == "plain.pt":
        with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole"):
            checkpoints.newest()
        assert "refuses what is in it" in said[0]
    else:
        with pytest.raises(ValueError, match=r"a checkpoint names posix.system"):
            checkpoints.newest().load_into(pipeline)
    assert not (tmp_path / "evil").exists()


def test_a_damaged_table_is_passed_over(alone, tmp_path):
    pipeline, _ = make()
    said = []
    checkpoints = PipelineCheckpoints(tmp_path, say=said.append)
    for step in (1, 2):
        checkpoints.save(step, capture_stages(pipeline))
    table = checkpoints.paths()[0] / ".metadata"
    table.write_bytes(table.read_bytes()[:100])
    assert checkpoints.newest().step == 1
    assert said[0].endswith("is passed over: its .metadata is missing, torn, cut or changed")
    with pytest.raises(ValueError, match=r"the checkpoint at .* is damaged"):
        SafeReader(table.parent).read_metadata()
