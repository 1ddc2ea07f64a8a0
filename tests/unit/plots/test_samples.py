"""Grids, bars and cuts show how often each reader, and all together, read each sample."""

from types import SimpleNamespace

import pytest
from matplotlib.colors import same_color, to_hex

import plots
from plots.samples import GROUND, MORE, ONCE, batch_cut
from plots.theme import PAPER, color
from rankbook.data import audit_samples


def audit(by_reader: dict, samples: int) -> SimpleNamespace:
    """What `rankbook.data.sample_audit` returns, counted here by other means."""
    read = [sample for of_one in by_reader.values() for sample in of_one]
    return SimpleNamespace(by_reader=by_reader, times={s: read.count(s) for s in range(samples)})


def cells(axes) -> dict:
    """(row, column) to colour and hatch."""
    boxes = axes.patches
    return {
        (box.get_y(), box.get_x()): (to_hex(box.get_facecolor()), box.get_hatch()) for box in boxes
    }


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_colours_numbers_and_patterns():
    (axes,) = plots.shares(audit({"rank 0": [0, 1, 1], "rank 1": [0, 2, "", ""]}, 4)).axes
    found = cells(axes)
    assert found[0, 0] == found[0, 1] == (color(0), None)  # a reader has its rank's colour
    assert found[1, 0] == found[1, 2] == (color(1), None)
    assert found[0, 2] == found[1, 1] == (GROUND, None)
    assert [found[2.4, column][0] for column in range(3)] == [MORE, MORE, ONCE]
    ground, hatch = found[2.4, 3]
    assert ground == PAPER and hatch, "never is told from once without colours"
    assert texts(axes) == ["2", "+2 others", "2", "2", "1"]
    assert axes.get_title("left") == "1 once, 2 twice, 1 never"
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["rank 0", "rank 1", "together"]


def test_several_grids_have_one_legend():
    one = audit({"rank 0": [0, 0, 0]}, 1)
    figure = plots.shares({"padded": one, "today": audit({"rank 0": []}, 2)})
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == [
        "padded: 0 once, 0 twice, 0 never, 1 more often",
        "today: 0 once, 0 twice, 2 never",
    ]
    assert len(figure.legends) == 1


@pytest.mark.parametrize("samples", [1, 12, 60])
def test_it_fits_a_page(samples):
    (axes,) = plots.shares(audit({"rank 0, worker 0": list(range(samples))}, samples)).axes
    beside = {text.get_text() for text in axes.texts}
    assert beside == ({"1"} if samples < 60 else set()), "no number where a cell is too small"


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="61 samples; 60 are the most"):
        plots.shares(audit({"rank 0": [0]}, 61))


def test_counts_are_the_audits():
    half, more = audit_samples([[0, 2], []], 4), audit_samples([[0, 1, 2], [3, 3, 0]], 4)
    figure = plots.counts({"ByHand": {"1 rank": half, "2 ranks": more}, "Whole": {"2 ranks": half}})
    left, right = figure.axes
    assert [text.get_text() for text in left.texts] == ["2", "2"]  # never, once
    assert [text.get_text() for text in right.texts] == ["2", "2", "2", "2"]
    widths = [bar.get_width() for bar in left.patches]
    assert widths == [0.5, 0.5, 0.0]


def test_samples_of_a_batch_stand_in_a_row_in_the_colours_of_their_ranks():
    (axes,) = batch_cut([[[7, 8], [9], [10]], [[1, 2], [3, 4]]]).axes
    assert [text.get_text() for text in axes.texts] == ["7", "8", "9", "10", "1", "2", "3", "4"]
    found = [box.get_facecolor() for box in axes.patches]
    expected = [color(rank) for rank in (0, 0, 1, 2, 0, 0, 1, 1)]
    assert all(map(same_color, found, expected))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "step 1, 3 ranks", "step 2, 2 ranks"]  # fmt: skip
    assert axes.texts[4].get_position()[1] > axes.texts[3].get_position()[1]  # the next row


def test_an_empty_share_takes_no_place_and_keeps_its_colour():
    (axes,) = batch_cut([[[5], [], [6]]]).axes
    found = [box.get_facecolor() for box in axes.patches]
    assert all(map(same_color, found, [color(0), color(2)]))
    assert [text.get_position()[0] for text in axes.texts] == [0.5, 1.5]


@pytest.mark.parametrize("steps", [[[[]]], [[list(range(17))]]])
def test_a_cut_that_cannot_be_read_is_refused(steps):
    with pytest.raises(ValueError, match="steps of 1 to 16 samples"):
        batch_cut(steps)


def test_the_part_that_is_lost_stands_above_its_bar():
    audits = {size: audit_samples([range(0, 16, size)], 16) for size in (1, 2, 16)}
    (axes,) = plots.lost(audits, proved=[2]).axes
    assert [text.get_text() for text in axes.texts] == ["0", "50", "94"]
    seen = [bar.get_height() for bar in axes.patches if same_color(bar.get_facecolor(), ONCE)]
    assert seen == [1, 1 / 2, 1 / 16]
    assert list(axes.lines[0].get_xdata()) == [2]
