"""What collectives leave, send and cost is drawn as it was given."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import plots
from plots.rings import SUM
from plots.theme import COLORS


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def ring(n: int) -> list:
    """The messages of a ring of n ranks in which every step takes a millisecond."""
    messages = []
    for step in range(2 * (n - 1)):
        for source in range(n):
            start, chunk = 5 + step / 1e3, (source - step + (step >= n - 1)) % n
            messages.append(
                SimpleNamespace(step=step, chunk=chunk, source=source, target=(source + 1) % n,
                                start=start, end=start + 1e-3)
            )  # fmt: skip
    return messages


@pytest.mark.parametrize("n", [2, 5])
def test_ring_steps(n):
    messages = ring(n)
    figure = plots.ring_steps(reversed(messages))
    *rings, timeline = figure.axes
    assert len(rings) == 2 * (n - 1)
    for step, axes in enumerate(rings):
        here = [m for m in messages if m.step == step]
        assert axes.get_title() == f"step {step}"
        *shown, when = texts(axes)
        assert when == f"{step:.1f} to {step + 1:.1f} ms"
        assert sorted(shown) == sorted([str(m.chunk) for m in here] + [str(r) for r in range(n)])
    bars = [patch for patch in timeline.patches if isinstance(patch, Rectangle)]
    assert len(bars) == len(messages)
    assert {round(bar.get_width(), 6) for bar in bars} == {1.0}
    assert [to_hex(bar.get_facecolor()) for bar in bars[:n]] == [
        plots.color(m.chunk) for m in messages[:n]
    ]


def test_collectives():
    before = np.arange(4.0).reshape(2, 2)
    after = [
        {"gather": np.array([0.0, 2.0]), "all_reduce": before.sum(0)},
        {"gather": None, "all_reduce": before.sum(0)},
    ]
    first, gather, total = plots.collectives(before, after).axes
    assert texts(first) == ["before", "rank 0", "0", "1", "rank 1", "2", "3"]
    assert texts(gather) == ["gather", "rank 0", "0", "2", "rank 1", "–"]
    assert texts(total) == ["all_reduce", "2", "4", "2", "4"], "the first of a row names the ranks"
    assert [to_hex(p.get_facecolor()) for p in gather.patches] == list(COLORS[:2])
    # A sum that happens to be a number from before keeps the sums' colour.
    assert "2" in texts(total)
    assert len({p.get_facecolor() for p in total.patches}) == 1
    assert to_hex(total.patches[0].get_facecolor()) not in COLORS


def test_alpha_beta():
    sizes = [2**k for k in range(3, 13)]
    seconds = [np.full(5, 1e-4 + size * 1e-9) * [0.9, 1, 1, 1, 3] for size in sizes]
    above, below = plots.alpha_beta(sizes, seconds, 1e-4, 1e-9, "4 ranks").axes
    dots, line = above.lines[0], above.lines[-1]
    assert np.allclose(dots.get_ydata(), [100 + size / 1e3 for size in sizes])
    assert np.allclose(line.get_ydata(), 100 + line.get_xdata() / 1e3)
    assert np.allclose(below.lines[0].get_ydata(), sizes / (1e-4 + np.array(sizes) * 1e-9) / 1e9)
    assert [t.get_text() for t in below.get_xticklabels()][:2] == ["8 B", "32 B"]


@pytest.mark.parametrize(
    ("nbytes", "name"), [(0, "0 B"), (8, "8 B"), (2048, "2 KiB"), (3 * 2**19, "1.5 MiB")]
)
def test_size_name(nbytes, name):
    assert plots.size_name(nbytes) == name


def test_a_queue():
    """Two ranks want rank 0 at once; the second waits until the first was served."""
    times = {(1, 0): (5.0, 5.1), (2, 0): (5.1, 5.2), (0, 1): (5.2, 5.3), (0, 2): (5.3, 5.4)}
    note = {
        ends: SimpleNamespace(source=ends[0], target=ends[1], start=start, end=end)
        for ends, (start, end) in times.items()
    }
    early = {
        (1, 0): (5.0, 5.1), (2, 0): (5.0, 5.2), (0, 1): (5.1, 5.3), (0, 2): (5.2, 5.4)
    }  # fmt: skip
    others = [
        [SimpleNamespace(source=s, target=t, start=early[s, t][0], end=early[s, t][1])
         for s, t in ((rank, 0), (0, rank))]
        for rank in (1, 2)
    ]  # fmt: skip
    figure = plots.queue([list(note.values()), *others])
    (axes,) = figure.axes
    grey = [p for p in axes.patches if to_hex(p.get_facecolor()) == SUM]
    # each is served for 100 ms in each direction; the rest of its time it waits
    assert [round(p.get_width()) for p in grey] == [100, 100, 100]
    assert texts(axes) == ["from 1", "from 2", "to 1", "to 2", "waits", "waits", "waits"]


def rows(
    ranks=(2, 3), ways=("by rank 0", "ring", "library"), sizes=(8, 2**20, 2**26)
) -> list[dict]:
    return [
        {"ranks": n, "bytes": size, "way": way, "median": 100 + size / 1e3, "p10": 90.0,
         "p90": 200 + size / 1e3, "predicted": 50.0 + size / 2e3, "error": -50.0}
        for n in ranks for size in sizes for way in ways
    ]  # fmt: skip


def test_a_race():
    figure = plots.race(rows())
    two = figure.axes[0]
    assert [axes.get_title("left")[:7] for axes in figure.axes] == ["2 ranks", "3 ranks"]
    foretold, dots = two.lines[0], two.lines[1]
    size = np.array(dots.get_xdata(), dtype=float)
    assert np.allclose(dots.get_ydata(), (100 + size / 1e3) / 1e3)
    assert np.allclose(foretold.get_ydata(), dots.get_ydata() / 2)


@pytest.mark.parametrize("largest", [2**20, 2**30])
def test_a_race_says_several_times_however_little_its_axis_spans(largest):
    """To one millisecond, or to a thousand: for the first, powers of ten alone are too few."""
    (axes,) = plots.race(rows(ranks=[2], sizes=[8, largest])).axes
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 4


@pytest.mark.parametrize("count", [1, 3])
def test_a_race_of_several_numbers_of_ranks(count):
    figure = plots.race(rows(ranks=range(2, 2 + count)))
    titled = [axes for axes in figure.axes if axes.get_title("left")]
    assert len(titled) == count
    for axes in titled[-2:]:  # the lowest of each column says its sizes
        assert axes.xaxis.get_tick_params()["labelbottom"]


def test_the_bus_bandwidth():
    ways = "by rank 0", "ring", "halving and doubling", "library"
    (axes,) = plots.bus_bandwidth(rows(ways=ways), 2**26, 1e9).axes
    link, first, *_ = axes.lines
    assert list(link.get_ydata()) == [1, 1]
    # half of what the algorithm moves a second counts for 2 ranks, two thirds for 3, twice
    speed = 2**26 / (100 + 2**26 / 1e3) / 1e3
    assert np.allclose(first.get_ydata(), [speed, speed * 4 / 3])
    assert "64 MiB" in axes.get_title("left")


def test_the_errors_of_a_race():
    table = plots.race_errors(rows(), {8, 2**26})
    assert table.rows[0] == ["8 B", "2", *["-50 %"] * 3]
    assert [row[:2] for row in table.rows] == [
        ["8 B", "2"], ["8 B", "3"], ["64 MiB", "2"], ["64 MiB", "3"]
    ]  # fmt: skip
