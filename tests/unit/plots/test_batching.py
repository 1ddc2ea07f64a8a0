"""Padding is drawn to scale, and what its cures recover."""

import pytest
from matplotlib.patches import Rectangle

import plots
from plots.batching import EMPTY, recovered
from rankbook.speed.batches import WAYS, make_batch
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size


def texts(axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts if text.get_text()]


def bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.given("all")
def test_padding_is_drawn_to_scale():
    batches = [([3, 1], 4), ([4, 2], 4)]
    figure = plots.padding({"all": batches, "packed": [([3, 1], 0), ([4, 2], 0)]})
    padded, packed = figure.axes
    assert [bar.get_width() for bar in bars(padded)] == [4, 4, 3, 1, 4, 4, 4, 2]
    # 3 + 1 fill a line of four; 4 fill one, 2 stand on the next
    drawn = [(bar.get_x(), bar.get_width()) for bar in bars(packed)]
    assert drawn == [(0, 3), (3, 1), (0, 4), (0, 2)]
    assert padded.get_title("left") == "all\n38% padding"
    assert packed.get_title("left") == "packed\n0% padding"


def test_padding_draws_the_batches_of_the_book():
    small = size("cpu", vocab_size=50, max_length=64)
    reviews = synthetic(8, small)
    figure = plots.padding({way: [make_batch(reviews, list(range(8)), way)] for way in WAYS})
    real = [sum(b.get_width() for b in bars(a) if b.get_facecolor() != EMPTY) for a in figure.axes]
    assert real == [len(reviews.ids)] * 4


def test_a_text_that_does_not_end_with_its_line():
    (axes,) = plots.padding({"packed": [([5, 4], 0)]}).axes
    assert [(bar.get_x(), bar.get_width()) for bar in bars(axes)] == [(0, 5), (0, 4)]
    (axes,) = plots.padding({"packed": [([3, 4, 5], 0)]}).axes
    drawn = [(bar.get_x(), bar.get_width()) for bar in bars(axes)]
    assert drawn == [(0, 3), (3, 2), (0, 2), (2, 3), (0, 2)]


SECONDS = {
    "longest of all": {"median": 2.0, "p10": 1.9, "p90": 2.2},
    "bucketed": {"median": 1.1, "p10": 1.0, "p90": 1.2},
    "packed": {"median": 1.0, "p10": 1.0, "p90": 1.0},
}


ARITHMETIC = {"longest of all": 2.0, "bucketed": 1.05, "packed": 1.0}


def test_what_is_recovered_of_the_padding():
    assert recovered(SECONDS, ARITHMETIC) == pytest.approx(
        {"longest of all": 0, "bucketed": 0.9, "packed": 1}
    )
    (axes,) = plots.padding_recovered(SECONDS, ARITHMETIC).axes
    assert [bar.get_width() for bar in bars(axes)] == pytest.approx([1, 2 / 1.1, 2])
    assert "90% recovered" in texts(axes)
    limits = [
        s[0, 0] for lines in axes.collections for s in lines.get_segments() if s[0, 0] == s[1, 0]
    ]
    assert limits[:2] == pytest.approx([1, 2 / 1.05])
    assert axes.lines[0].get_xdata()[0] == 2


def test_a_record_with_single_turns_shows_the_ratios_within_a_turn():
    gains = {way: {"median": 1.5, "p10": 1.25, "p90": 1.75} for way in SECONDS}
    turns = {way: times | {"gain": gains[way]} for way, times in SECONDS.items()}
    (axes,) = plots.padding_recovered(turns, ARITHMETIC).axes
    assert [bar.get_width() for bar in bars(axes)] == [1.5] * 3
    spreads = [
        (s[0, 0], s[1, 0])
        for lines in axes.collections
        for s in lines.get_segments()
        if s[0, 0] != s[1, 0]
    ]
    assert spreads == [(1.25, 1.75)] * 3


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: plots.padding({"all": []}), "there is no batch to draw"),
        (lambda: recovered(SECONDS, dict.fromkeys(SECONDS, 1.0)), "'longest of all' pads nothing"),
        (lambda: plots.break_even({"eager": (0, 1)}), "one line crosses nothing"),
        (lambda: plots.scaling({"ddp": {1: 1}}), "ddp has 1 point; a line needs two"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw()
