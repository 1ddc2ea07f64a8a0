"""Which backend and device a rank gets, for every number of GPUs (counted, not used)."""

import pytest
import torch

from rankbook.core.placement import place


@pytest.fixture
def gpus(monkeypatch):
    """Pretend that the machine has a number of GPUs."""

    def pretend(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return pretend


@pytest.mark.parametrize(
    ("count", "ranks", "backend", "device", "why"),
    [
        (0, 4, "gloo", "cpu", "no GPUs here"),
        (1, 2, "gloo", "cpu", "1 GPU here, and nccl needs one per rank"),
        (4, 4, "nccl", "cuda:1", "4 GPUs here, one per rank"),
        (8, 2, "nccl", "cuda:1", "8 GPUs here, one per rank"),
    ],
)
def test_auto_takes_nccl_only_with_a_gpu_for_every_rank(gpus, count, ranks, backend, device, why):
    gpus(count)
    placement = place(1, ranks)
    assert (placement.backend, str(placement.device), placement.why) == (backend, device, why)


def test_one_rank_on_one_gpu(gpus):
    gpus(1)
    assert str(place(0, 1).device) == "cuda:0"


def test_gloo_may_be_asked_for(gpus):
    gpus(4)
    assert str(place(0, 2, "gloo").device) == "cpu"


@pytest.mark.parametrize(
    ("backend", "sentence"),
    [
        ("nccl", "nccl needs one GPU per rank: 2 ranks, 1 GPU here; use --backend gloo"),
        ("mpi", "backend 'mpi' is unknown; use auto, gloo or nccl"),
    ],
)
def test_what_cannot_work_is_refused(gpus, backend, sentence):
    gpus(1)
    with pytest.raises(ValueError, match=sentence):
        place(0, 2, backend)
