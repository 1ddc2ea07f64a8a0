"""What was measured is drawn part by part, what was predicted as a mark, its error in words."""

import plots

MIB = 2**20


def test_the_error_stands_beside_each_bar():
    rows = [
        {"name": "plain", "predicted": 11 * MIB,
         "measured": {"parameters": 4 * MIB, "activations": 6 * MIB}},
        {"name": "layers", "predicted": 5 * MIB, "measured": {"parameters": 5 * MIB}},
    ]  # fmt: skip
    (axes,) = plots.memory_checked(rows).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["plain", "layers"]
    assert [text.get_text() for text in axes.texts] == ["+10.0%", "+0.0%"]
    assert [line.get_xdata()[0] for line in axes.lines] == [11, 5]
