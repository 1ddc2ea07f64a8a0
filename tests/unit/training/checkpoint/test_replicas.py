"""Checkpoints of replicas that train alone: all comes back, whoever is there afterwards."""

import pytest
import torch

from rankbook.models import TransformerLM
from rankbook.parallel.sync import DiLoCo
from rankbook.training.checkpoint import (
    PipelineCheckpoints,
    Replica,
    ReplicaCheckpoints,
    capture_replica,
    capture_stages,
)
from tests.unit.training.checkpoint.test_pipeline import CONFIG, make, tensors, train


def begin(index=0, count=1, **options) -> tuple[Replica, torch.optim.Optimizer, DiLoCo]:
    """A replica, its inner optimizer, and how it meets others, of which none is there."""
    pipeline, inner = make(**options)
    sync = DiLoCo(pipeline.parameters(), every=2)
    return Replica(pipeline, sync.globals, sync.outer, index, count), inner, sync


def go_on(replica, inner, sync, steps) -> None:
    for step in steps:
        train(replica.stages, inner, [step])
        sync.step()


def moments(named, optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}.{key}": torch.as_tensor(value).clone()
        for name, parameter in named
        for key, value in optimizer.state[parameter].items()
    }


def everything(replica, inner) -> dict[str, dict[str, torch.Tensor]]:
    own = replica.stages
    return {
        "own": tensors(own),
        "inner": moments(own.named_parameters(), inner),
        "agreed": tensors(replica),
        "outer": moments(replica.named_parameters(), replica.outer),
    }


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def saved(alone, tmp_path):
    """A step after a meeting: what was there, and its checkpoint."""
    replica, inner, sync = begin()
    go_on(replica, inner, sync, range(3))
    checkpoints = ReplicaCheckpoints(tmp_path)
    checkpoints.save(3, capture_replica(replica, inner, {"best": 4.1}))
    return everything(replica, inner), checkpoints.newest()


@pytest.mark.parametrize("stages", [2, 4])
def test_all_that_a_replica_has_comes_back(saved, stages):
    before, checkpoint = saved
    assert not same(before["own"], before["agreed"]) and before["outer"]
    replica, inner, sync = begin(stages=stages)
    go_on(replica, inner, sync, range(1))
    assert checkpoint.load_into(replica, inner) == {"best": 4.1}
    after = everything(replica, inner)
    assert all(same(before[part], after[part]) for part in before)


def test_a_new_replica_begins_with_what_all_agreed_on(saved):
    before, checkpoint = saved
    replica, inner, _ = begin(index=1, count=2)
    checkpoint.load_into(replica, inner)
    after = everything(replica, inner)
    assert same(after["own"], before["agreed"])
    assert all(same(before[part], after[part]) for part in ("inner", "agreed", "outer"))


def test_what_all_agreed_on_is_read_without_replicas(saved):
    before, checkpoint = saved
    whole = TransformerLM(CONFIG)
    assert checkpoint.load_into(whole) == {"best": 4.1}
    assert same(tensors(whole), before["agreed"])


def test_what_is_not_of_such_replicas_is_one_sentence(saved, tmp_path):
    _, checkpoint = saved
    replica, inner, _ = begin(kind=torch.optim.SGD)
    with pytest.raises(ValueError, match="with AdamW inner optimizer, and this run has SGD; use"):
        checkpoint.load_into(replica, inner)
    PipelineCheckpoints(tmp_path / "every").save(1, capture_stages(replica.stages, inner))
    with pytest.raises(ValueError, match="saved with no inner optimizer, and this run has SGD"):
        ReplicaCheckpoints(tmp_path / "every").newest().load_into(replica, inner)
