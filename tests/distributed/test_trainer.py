"""transformers' Trainer and a stream of samples: who gets what, and what is learnt from it."""

import pytest

from rankbook.data.embedded import prose
from tests.distributed.launch import run_ranks
from tests.distributed.trainer_ranks import all_of_it, dispatched

pytestmark = pytest.mark.long

TOLERANCE = 1e-5  # of a loss of about 5, after several steps in another order of sums
ONCE, TWICE = [0, 20, 0, 0], [0, 0, 20, 0]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("ranks")
    text = folder / "text.txt"
    lines = [line for line in prose()["valid"].split("\n") if line.strip()][:60]
    text.write_text("\n".join(sorted(lines, key=len)), "utf-8")  # halves of unequal many lines
    first, second = run_ranks(all_of_it, folder, 2, str(folder), str(text))
    assert first["counts"] == second["counts"] and first["lines"] == second["lines"]
    return first


def test_every_setting(found):
    """[never, once, twice, more], by set and workers: dispatched (whole, split), read by all."""
    assert found["counts"]["settings"] == {
        "by hand, 0": [[10, 10, 0, 0], [10, 10, 0, 0], [8, 8, 4, 0], [8, 12, 0, 0]],
        "by hand, 2": [[10, 10, 0, 0], [11, 8, 1, 0], [4, 16, 0, 0], [8, 8, 4, 0]],
        "by workers, 0": [ONCE, ONCE, [0, 16, 4, 0], ONCE],
        "by workers, 2": [ONCE, ONCE, [0, 8, 12, 0], [0, 16, 4, 0]],
        "whole, 0": [ONCE, ONCE, [0, 16, 4, 0], ONCE],
        "whole, 2": [TWICE, TWICE, [0, 0, 16, 4], TWICE],
    }
    assert found["counts"]["default"] == [10, 10, 0, 0]


def test_partial_batches_of_workers_lose_samples(found):
    one_worker, two_workers = found["counts"]["files"]
    assert one_worker == [0, 20, 1, 0] and two_workers == [1, 20, 0, 0]


def test_even_batches_is_for_sets_with_indices(found):
    assert found["counts"]["list"] == [[0, 18, 3, 0], [0, 21, 0, 0]]
    even, uneven = found["counts"]["even"]
    assert even == uneven == [0, 20, 1, 0]


def test_shards_of_datasets_are_cut_twice(found):
    assert found["counts"]["shards"] == [[0, 21, 0, 0], [10, 11, 0, 0]]


def test_every_line_once_in_each_epoch(found):
    """Twice in two epochs, whatever the number of workers; with rank 0 as reader, a few more."""
    for n, way, workers, times, totals in found["lines"]:
        padded = n % 2 if way == "first" else 0
        assert totals == [n + padded] * 2, (n, way, workers)
        assert times[0] == 2 and times[-1] <= 2 + 2 * padded, (n, way, workers)


@pytest.mark.parametrize(
    ("run", "way"),
    [
        ("shares", "shares"),
        ("shares, accumulated", "shares"),
        ("first", "first"),
        ("first, one worker", "first"),
        ("Trainer itself", "first"),
    ],
)
def test_the_losses_are_those_of_a_loop_by_hand(found, run, way):
    losses, expected = found["losses"][run], found["by hand"][way]
    assert len(losses) == 7 and losses[-1] < losses[0] - 0.5
    assert losses == pytest.approx(expected, abs=TOLERANCE)


def test_a_rank_without_a_single_line_takes_part(found):
    losses, expected = found["lopsided"]
    assert losses == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("world_size", [2, 4])
def test_dispatching_in_one_process_is_that_of_real_ranks(world_size, tmp_path):
    from rankbook.training import dispatch

    sizes = [1, 20, 21, 67, 240]
    found = run_ranks(dispatched, tmp_path, world_size, sizes)
    for n, *ranks in zip(sizes, *found, strict=True):
        assert ranks == dispatch.dispatched(range(0, n, world_size), 4, world_size), n
