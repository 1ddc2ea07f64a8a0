"""Accuracies over seeds: every review is answered, runs go on where they stopped, pairs hold."""

import pytest
import torch

from benchmarks.seeds import accuracies, compared, packed, unpacked
from rankbook.speed.epochs import answers, train
from rankbook.speed.loop import Training
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size

TINY = size(
    "cpu", vocab_size=200, d_model=16, d_hidden=32, layers=1, heads=1, max_length=40, batch=5,
    samples=15, validation=5, test=21, epochs=1,
)  # fmt: skip
PLAIN, SDPA, TF32 = (recipe(name, "cpu").replace(workers=0) for name in ("plain", "sdpa", "tf32"))


@pytest.fixture(scope="module")
def splits():
    return {
        name: synthetic(count, TINY, seed) for seed, (name, count) in enumerate(TINY.splits.items())
    }


@pytest.fixture(scope="module")
def rows(splits):
    return accuracies([PLAIN, SDPA, TF32], TINY, splits, seeds=2)


def test_answers_stand_where_their_reviews_do(splits):
    training = Training(PLAIN, TINY)
    right = answers(training, splits["test"])
    assert right.shape == (21,) and right.dtype == torch.bool
    one_by_one = [answers(training, splits["test"].first(n + 1))[n].item() for n in range(21)]
    assert right.tolist() == one_by_one


def test_a_row_has_every_seed(rows, splits):
    plain = rows[0]
    assert [len(seed["last"]) for seed in plain["seeds"]] == [21, 21]
    first = train(PLAIN, TINY, splits, seed=0)
    assert packed(first.right_last) == plain["seeds"][0]["last"]
    assert unpacked([plain["seeds"][0]["last"]]).double().mean() == first.test_last


def test_what_cannot_run_says_why(rows):
    assert rows[2]["seeds"] == [] and rows[2]["skipped"].startswith("TF32 is a number format")


def test_equal_mathematics_have_equal_answers(rows):
    paired = compared(rows[1], rows[0])
    assert paired.disagree <= 1 / 21 and not paired.tells


def test_another_seed_answers_otherwise(rows):
    """What the comparison has to see: trainings that differ in their seed alone."""
    first, second = ({"seeds": [seed]} for seed in rows[0]["seeds"])
    assert compared(second, first).disagree > 0


def test_a_run_goes_on_where_it_stopped(rows, splits, monkeypatch):
    trained = []

    def noted(recipe, *rest, seed, **more):
        trained.append((recipe.name, seed))
        return train(recipe, *rest, seed=seed, **more)

    monkeypatch.setattr("benchmarks.seeds.train", noted)
    half = [dict(rows[0]), dict(rows[1]) | {"seeds": rows[1]["seeds"][:1]}]
    kept = []
    again = accuracies([PLAIN, SDPA], TINY, splits, seeds=2, done=half,
                       keep=lambda rows: kept.append(len(rows[1]["seeds"])))  # fmt: skip
    assert trained == [("sdpa", 1)] and kept == [2]
    assert again == rows[:2]


def test_one_that_fails_is_a_row(splits, monkeypatch):
    def broken(recipe, *rest, **more):
        if recipe.name == "sdpa":
            raise ValueError("no kernel\nand so on")
        return train(recipe, *rest, **more)

    monkeypatch.setattr("benchmarks.seeds.train", broken)
    plain, failed = accuracies([PLAIN, SDPA], TINY, splits, seeds=1)
    assert failed["error"] == "sdpa: ValueError: no kernel" and len(plain["seeds"]) == 1
