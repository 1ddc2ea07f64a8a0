"""The clock starts with the first batch and stops when it is told; what went through is counted."""

import pytest
import torch
from torch.utils.data import DataLoader

from rankbook.models.classifier import Classifier
from rankbook.speed.batches import make_batch
from rankbook.speed.lightning_runner import fit
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size
from rankbook.speed.stopwatch import Stopwatch
from rankbook.speed.strategies import loops

TINY = size("cpu", layers=1, d_model=16, d_hidden=32, vocab_size=100, max_length=30)


@pytest.fixture
def batches():
    reviews = synthetic(8, TINY)
    return [make_batch(reviews, range(i, i + 4), "longest of batch") for i in (0, 4)]


def fresh():
    model = Classifier(TINY.model).initialise(seed=0)
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


@pytest.fixture
def clock(monkeypatch):
    """A clock that counts how often it was asked."""
    ticks = iter(range(100))
    monkeypatch.setattr("rankbook.speed.stopwatch.now", lambda device: float(next(ticks)))


def test_it_starts_once_with_the_first_batch_and_counts(batches, clock):
    watch = Stopwatch(batches)
    assert watch.start is None and len(watch) == 2
    stream = iter(watch)
    assert watch.start is None  # asking for an iterator fetches nothing yet
    next(stream)
    assert watch.start == 0.0
    assert [*stream, *watch] == [batches[1], *batches]  # a second pass does not start it anew
    assert watch.start == 0.0 and watch.samples == 16
    assert watch.tokens == 2 * sum(batch.tokens for batch in batches)
    assert watch.computed == 2 * sum(batch.computed for batch in batches)
    watch.stop()
    assert watch.seconds == 1.0


def test_without_two_ends_there_is_no_time(batches):
    watch = Stopwatch(batches)
    with pytest.raises(RuntimeError, match="needs a first batch, then stop"):
        _ = watch.seconds


def test_a_stream_without_a_length_has_none(batches):
    with pytest.raises(TypeError):
        len(Stopwatch(batch for batch in batches))


@pytest.mark.parametrize("loaded", [False, True])
def test_loop_and_trainer_are_timed_around_the_same(batches, clock, loaded):
    """Twice asked in each: at the first batch, and after the last step."""
    model, adam = fresh()
    plain = Stopwatch(batches)
    expected = loops.plain(model, adam, DataLoader(plain, batch_size=None), "cpu")
    plain.stop()
    pytest.importorskip("lightning")
    watch = Stopwatch(batches)
    fitted = fit(*fresh(), DataLoader(watch, batch_size=None) if loaded else watch, epochs=1)
    assert plain.seconds == watch.seconds == fitted.seconds == 1.0
    assert fitted.losses == pytest.approx([loss.item() for loss in expected], abs=1e-6)
    assert fitted.samples == plain.samples == 8
