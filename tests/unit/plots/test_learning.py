"""Curves of recorded trainings stand at their perplexities; the recipe's table in its order."""

import math

import pytest

from plots.learning import learning_curves, recipe_table

RUNS = {"4 ranks": [(10, 7.0), (20, 6.5)], "one process": [(10, 7.0), (20, 6.5)]}


@pytest.mark.given(f"unigram: {math.exp(6.8):,.0f}")
def test_curves_are_perplexities():
    (axes,) = learning_curves(RUNS, {"unigram": 6.8}).axes
    drawn = {line.get_label(): line for line in axes.lines}
    for name in RUNS:
        assert drawn[name].get_xdata().tolist() == [10, 20]
        assert drawn[name].get_ydata() == pytest.approx([math.exp(7.0), math.exp(6.5)])
    assert axes.get_yscale() == "log" and axes.get_title("left") == "perplexity"
    words = [text.get_text() for text in axes.texts]
    assert words == [f"unigram: {math.exp(6.8):,.0f}", *RUNS]
    wide, thin = (drawn[name].get_linewidth() for name in RUNS)
    assert wide > thin  # both are seen where they are one


@pytest.mark.given("then", "knows nothing: 10.27")
def test_losses_are_drawn_as_they_are():
    (axes,) = learning_curves(
        {"then": [(10, 43.0), (20, 12.0)]}, {"knows nothing": 10.27}, False
    ).axes
    assert axes.lines[0].get_ydata().tolist() == [43, 12]
    assert axes.get_yscale() == "linear" and axes.get_title("left") == "loss"
    assert [text.get_text() for text in axes.texts] == ["knows nothing: 10.27", "then"]


def test_a_run_without_points_is_nothing_to_draw():
    with pytest.raises(ValueError, match="learning_curves: nothing to draw"):
        learning_curves({"empty": []}, {})


def test_the_recipe_in_its_order():
    rows = [
        {"change": "the original's", "highest training loss": 20.0, "valid loss": None,
         "valid losses": [], "ended": "the loss is nan"},
        {"change": "pre-norm", "highest training loss": 10.0, "valid loss": math.log(1500),
         "valid losses": [math.log(1400), math.log(1500), math.log(1700)], "ended": ""},
    ]  # fmt: skip
    assert recipe_table([{"rows": rows}]).rows == [
        ["the original's", "20.00", "the loss is nan", ""],
        ["+ pre-norm", "10.00", "1,500", "1,400 – 1,700"],
    ]
    assert recipe_table([]).rows[0][-2] == "not measured yet"
