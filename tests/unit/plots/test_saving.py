"""The figure of a save: one panel a way, bars where things happened."""

import pytest

import plots


@pytest.mark.given("one", "other")
def test_bars_lie_where_things_happened():
    ways = {
        "one": {"steps": [(10.0, 10.2), (10.5, 10.7)], "stands": (10.2, 10.5), "durable": 10.5},
        "other": {"steps": [(0.0, 0.2), (0.3, 0.5)], "stands": (0.2, 0.3), "durable": 0.9},
    }
    figure = plots.save_timeline(ways)
    one, other = figure.axes
    ends = [
        max(path.vertices[:, 0].max() for path in bars.get_paths()) for bars in other.collections
    ]
    assert ends == pytest.approx([500, 300, 900])  # steps, standing still, durable
    assert one.get_xlim()[1] > 900
