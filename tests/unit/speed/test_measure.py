"""FLOP against torch's own counter, memory against what is allocated, and the device's peak."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rankbook.predict.memory.resident import PeakMemory
from rankbook.speed import measure
from rankbook.speed.batches import make_batch
from rankbook.speed.loop import Training
from rankbook.speed.measure import matmul_peak, share_of_peak, state_bytes, step_flop
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import size

TINY = size("cpu", vocab_size=50, d_model=32, d_hidden=48, layers=2, batch=3)


def texts(*lengths):
    return Reviews.of([torch.arange(n) % 50 for n in lengths], [0] * len(lengths), 50)


@pytest.mark.parametrize(("way", "lengths"), [("longest of all", (7, 7, 7)), ("packed", (3, 9, 1))])
def test_flop_of_a_step_are_what_torch_counts(way, lengths):
    training = Training(recipe("plain").replace(batching=way), TINY)
    batch = make_batch(texts(*lengths), [0, 1, 2], way)
    with FlopCounterMode(display=False) as counter:
        training.step(batch)
    assert step_flop(TINY.model, torch.tensor(lengths)) == counter.get_total_flops()


def test_padding_is_not_counted():
    training = Training(recipe("plain"), TINY)
    with FlopCounterMode(display=False) as counter:
        training.step(make_batch(texts(3, 9, 1), [0, 1, 2], "longest of all"))
    assert step_flop(TINY.model, torch.tensor([3, 9, 1])) < counter.get_total_flops()
    assert step_flop(TINY.model, torch.tensor([9, 9, 9])) == counter.get_total_flops()


def test_state_is_four_numbers_a_parameter():
    training = Training(recipe("packed"), TINY)
    count = sum(parameter.numel() for parameter in training.model.parameters())
    assert state_bytes(training.model, training.optimizer) == {
        "parameters": 4 * count,
        "gradients": 0,
        "optimizer": 0,
    }
    training.step(make_batch(texts(3, 9, 1), [0, 1, 2], "packed"))
    found = state_bytes(training.model, training.optimizer)
    assert found["gradients"] == found["parameters"] == 4 * count
    steps = 4 * len(list(training.model.parameters()))  # Adam counts its steps for each tensor
    assert found["optimizer"] == 8 * count + steps


def test_peak_memory_is_seen_after_it_is_freed():
    size_of = 64 * 2**20
    with PeakMemory("cpu") as memory:
        block = torch.ones(size_of // 4)
        del block
    if memory.grown is None:
        pytest.skip("this kernel does not let a process reset its peak")
    assert 0.9 * size_of < memory.grown < 2 * size_of
    with PeakMemory("cpu") as memory:
        torch.ones(1)
    assert memory.grown < 0.5 * size_of


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_device_has_a_peak(precision):
    peak = matmul_peak(precision, "cpu", seconds=0.01)
    assert 1e7 < peak < 1e15
    assert matmul_peak(precision, "cpu", seconds=0.01) == peak  # measured once


def test_threads_have_peaks_of_their_own(monkeypatch):
    speeds = iter([5.0, 9.0, 3.0])
    monkeypatch.setattr(measure, "_best", {})
    monkeypatch.setattr(measure, "_matmul_flop_per_s", lambda *_: next(speeds))
    threads = torch.get_num_threads()
    assert matmul_peak("float32") == matmul_peak("float32") == 5.0
    try:
        torch.set_num_threads(threads + 1)
        assert matmul_peak("float32") == 9.0
        assert matmul_peak("float32", again=True) == 9.0  # 3.0 was a busy moment
    finally:
        torch.set_num_threads(threads)


def test_a_share_has_one_denominator_and_is_never_above_one(monkeypatch):
    monkeypatch.setattr(measure, "_best", {})
    found = {"float32": [4.0, 4.0, 8.0], "bf16": [2.0, 2.0, 16.0]}  # busy, busy, quiet
    monkeypatch.setattr(measure, "_matmul_flop_per_s", lambda format, *_: found[format].pop(0))
    assert share_of_peak(2.0) == 0.5
    assert share_of_peak(12.0) == 0.75  # measured again, twice
    assert share_of_peak(2.0) == 0.125


def test_more_than_the_peak_is_refused(monkeypatch):
    monkeypatch.setattr(measure, "_best", {})
    monkeypatch.setattr(measure, "_matmul_flop_per_s", lambda *_: 1e9)
    with pytest.raises(ValueError, match="more than this device's best product"):
        share_of_peak(4.21e9)
