"""The race of the all_reduces: its prediction comes from the ping-pong, its file says all of it."""

import json

import pytest
import torch

from benchmarks.all_reduce_race import RANKS, SIZES, fit, repeats_of, rows_of
from benchmarks.record import RESULTS
from rankbook.comm.all_reduce.alpha_beta import WAYS, predict

ALPHA, BETA = 1e-4, 1e-9


def test_the_ping_pong_gives_its_line_back():
    ping = [torch.tensor([0.9, 1.0, 5.0]) * (ALPHA + BETA * size) for size in SIZES]
    assert fit(ping) == pytest.approx((ALPHA, BETA), rel=1e-3)


def test_large_messages_are_repeated_less():
    repeats = repeats_of(20)
    assert list(repeats) == SIZES and repeats[8] == 20 and repeats[2**26] == 5
    assert sorted(repeats.values(), reverse=True) == list(repeats.values())


def test_an_error_is_the_predictions():
    times = {way: [torch.full((5,), 2 * predict(way, 4, size, ALPHA, BETA)) for size in SIZES]
             for way in WAYS}  # fmt: skip
    rows = rows_of(4, times, ALPHA, BETA)
    assert len(rows) == len(SIZES) * len(WAYS)
    assert {row["error"] for row in rows} == {-50.0}  # it takes twice as long as predicted


@pytest.mark.parametrize(
    ("way", "n", "alphas", "betas"),
    [
        ("by rank 0", 4, 6, 6),
        ("ring", 4, 6, 1.5),
        ("library", 8, 14, 1.75),
        ("halving and doubling", 2, 2, 1),
        ("halving and doubling", 8, 6, 1.75),
        ("halving and doubling", 6, 4 + 2, 1.5 + 2),  # four, and two that fold
        ("ring", 1, 0, 0),
    ],
)
def test_the_terms(way, n, alphas, betas):
    assert predict(way, n, 1e6, ALPHA, 0) == pytest.approx(alphas * ALPHA)
    assert predict(way, n, 1e6, 0, BETA) == pytest.approx(betas * BETA * 1e6)


def test_an_unknown_way():
    with pytest.raises(ValueError, match=r"^predict: 'tree' is unknown; use one of by rank 0, "):
        predict("tree", 2, 8, ALPHA, BETA)


def test_the_recorded_race_is_whole_and_its_predictions_are_the_ping_pongs():
    result = json.loads((RESULTS / "all_reduce_race-cpu.json").read_text("utf-8"))
    places = [(row["ranks"], row["bytes"], row["way"]) for row in result["rows"]]
    assert places == [(n, size, way) for n in RANKS for size in SIZES for way in WAYS]
    link = result["link"].values()
    medians = [torch.tensor([row["median"] / 1e6]) for row in result["ping_pong"]]
    assert list(link) == pytest.approx(list(fit(medians)), rel=0.01)
    for row in result["rows"]:
        foretold = predict(row["way"], row["ranks"], row["bytes"], *link) * 1e6
        assert row["predicted"] == pytest.approx(foretold, abs=1e-3)
        assert row["error"] == pytest.approx(100 * (foretold / row["median"] - 1), abs=0.06)
