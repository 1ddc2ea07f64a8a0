"""Join as it went, and the weights of inputs, are drawn as they are."""

import pytest
from matplotlib.colors import to_hex

import plots
from plots.join import COLLECTIVE, KINDS
from plots.theme import COLORS
from rankbook.parallel.joining import JoinEvent, JoinTimeline


def event(rank: int, kind: str, start: float, end: float, name: str = "") -> JoinEvent:
    """Times in milliseconds after 7 s."""
    return JoinEvent(rank, kind, name, 7 + start / 1e3, 7 + end / 1e3)


def two_ranks() -> JoinTimeline:
    """Rank 0 has one input, rank 1 has two."""
    return JoinTimeline([
        event(0, "forward", 0, 2), event(0, "notify", 0, 1), event(0, "exhausted", 3, 3),
        event(0, "ask", 3, 6), event(0, "main_hook", 6, 8, "DDP"), event(0, "ask", 8, 9),
        event(0, "collective", 6, 7, "all_reduce"), event(0, "post_hook", 9, 10, "DDP"),
        event(1, "forward", 0, 2), event(1, "notify", 0, 1),
        event(1, "forward", 5, 7), event(1, "notify", 5, 6), event(1, "backward", 7, 8),
        event(1, "exhausted", 8.5, 8.5), event(1, "ask", 8.5, 9),
    ])  # fmt: skip


def boxes(axes) -> list[tuple]:
    """Colour, left, right, top of every box."""
    found = []
    for collection in axes.collections:
        for path in collection.get_paths():
            (left, top), (right, _) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            colour = to_hex(collection.get_facecolor()[0])
            found.append((colour, round(left, 3), round(right, 3), int(top)))
    return found


def test_join_timeline():
    figure = plots.join_timeline(two_ranks(), title="2 ranks")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    drawn = boxes(axes)
    for kind, rank, left, right in [
        ("forward", 0, 0, 2), ("ask", 0, 3, 6), ("main_hook", 0, 6, 8), ("post_hook", 0, 9, 10),
        ("forward", 1, 5, 7), ("backward", 1, 7, 8),
    ]:  # fmt: skip
        assert (KINDS[kind][0], left, right, rank) in drawn
    assert (COLLECTIVE, 6, 7, 0) in drawn
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    # from the second message of rank 1 to the first question of rank 0; then both only ask
    assert [list(line.get_xdata()) for line in dotted] == [pytest.approx([5, 6])]
    assert [text.get_text().strip() for text in axes.texts] == ["inputs used up"] * 2
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "optimizer.step()" not in named and named[-1] == "collective"


@pytest.mark.given("waits for rank 0")
def test_notes_stand_behind_the_last_event_or_in_it():
    hung = JoinTimeline([
        event(0, "forward", 0, 2), event(1, "forward", 0, 2), event(1, "backward", 2, 10),
    ])  # fmt: skip
    figure = plots.join_timeline(hung, notes={0: "no input left", 1: "waits for rank 0"})
    (axes,) = figure.axes
    placed = {text.get_text(): text.xy[0] for text in axes.texts}
    assert placed == {"no input left": pytest.approx(2), "waits for rank 0": pytest.approx(2)}
    assert not [text for text in plots.join_timeline(hung).axes[0].texts if text.get_text().strip()]


def test_another_unit():
    (axes,) = plots.join_timeline(two_ranks(), unit="seconds").axes
    assert axes.get_xlabel() == "seconds" and axes.get_xlim()[1] == pytest.approx(0.01005)


def test_sample_weights():
    by_way = {"join": [[1, 1], [1, 1, 1]], "pad": [[2, 1], [1, 1, 1]]}
    figure = plots.sample_weights(by_way)
    bars = [[bar.get_height() for bar in axes.patches] for axes in figure.axes]
    assert bars == [[1, 1, 1, 1, 1], [2, 1, 1, 1, 1]]
    colours = [to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches]
    assert colours == [COLORS[0]] * 2 + [COLORS[1]] * 3
    ticks = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert ticks == ["0", "1", "0", "1", "2"]
    named = [(text.get_text(), to_hex(text.get_color())) for text in figure.axes[0].texts]
    assert named == [("rank 0", COLORS[0]), ("rank 1", COLORS[1])]
    assert not figure.axes[1].texts
