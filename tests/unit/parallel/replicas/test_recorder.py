"""What a recorded backward pass says of itself; the recorder itself runs in tests/distributed."""

import pytest
from torch import nn

from rankbook.parallel.replicas import BackwardPass, OverlapRecorder
from rankbook.parallel.replicas.recorder import Bucket, ReadyGradient


def backward(*buckets: tuple[float, float], computed=10.0, end=12.0) -> BackwardPass:
    """Of rank 0, from 2 on, with two gradients and the given buckets (start, end)."""
    gradients = [ReadyGradient("b", 4, 5.0), ReadyGradient("a", 8, computed)]
    buckets = [Bucket(i, ["b"], 4, *times) for i, times in enumerate(buckets)]
    return BackwardPass(0, 2.0, end, gradients, buckets)


def test_span_and_computed():
    one = backward((10, 12))
    assert (one.span, one.computed) == (10.0, 10.0)


@pytest.mark.parametrize(
    ("buckets", "communication", "hidden"),
    [
        ([], 0, 0),
        ([(10, 12)], 2, 0),
        ([(5, 8)], 3, 3),
        ([(5, 11)], 6, 5),
        ([(5, 7), (8, 11)], 5, 4),
        ([(5, 9), (6, 8)], 4, 4),  # on its way at once: counted once
        ([(5, 8), (6, 12)], 7, 5),
        ([(6, 12), (5, 8)], 7, 5),
        ([(10.5, 11), (11, 12)], 1.5, 0),
    ],
)
def test_what_is_hidden(buckets, communication, hidden):
    one = backward(*buckets)
    assert one.communication == pytest.approx(communication)
    assert one.hidden == pytest.approx(hidden)


def test_only_ddp_is_recorded():
    with pytest.raises(TypeError, match="DistributedDataParallel, not Linear; wrap the model"):
        OverlapRecorder(nn.Linear(2, 2))
