"""What collectives leave, send and cost is drawn as it was given."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from rankbook import plots
from rankbook.plots.theme import COLORS
from tests.unit.plots.drawn import texts_outside


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


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_ring_steps(n):
    messages = ring(n)
    figure = plots.ring_steps(reversed(messages))
    *rings, timeline = figure.axes
    assert len(rings) == 2 * (n - 1)
    for step, axes in enumerate(rings):
        here = [m for m in messages if m.step == step]
        assert axes.get_title() == f"step {step}: {step:.1f} to {step + 1:.1f} ms"
        shown = texts(axes)
        assert sorted(shown) == sorted([str(m.chunk) for m in here] + [str(r) for r in range(n)])
    bars = [patch for patch in timeline.patches if isinstance(patch, Rectangle)]
    assert len(bars) == len(messages)
    assert {round(bar.get_width(), 6) for bar in bars} == {1.0}
    assert [to_hex(bar.get_facecolor()) for bar in bars[:n]] == [
        plots.color(m.chunk) for m in messages[:n]
    ]
    assert texts_outside(figure) == []


def test_ring_steps_without_messages():
    with pytest.raises(ValueError, match="no messages"):
        plots.ring_steps([])


def test_collectives():
    before = np.arange(4.0).reshape(2, 2)
    after = [
        {"gather": np.array([0.0, 2.0]), "all_reduce": before.sum(0)},
        {"gather": None, "all_reduce": before.sum(0)},
    ]
    first, gather, total = plots.collectives(before, after).axes
    assert texts(first) == ["before", "rank 0", "0", "1", "rank 1", "2", "3"]
    assert texts(gather) == ["gather", "rank 0", "0", "2", "rank 1"]
    assert [to_hex(p.get_facecolor()) for p in gather.patches] == list(COLORS[:2])
    # A sum that happens to be a number from before keeps the sums' colour.
    assert "2" in texts(total)
    assert len({p.get_facecolor() for p in total.patches}) == 1
    assert to_hex(total.patches[0].get_facecolor()) not in COLORS


def test_alpha_beta():
    sizes = [2**k for k in range(3, 13)]
    seconds = [np.full(5, 1e-4 + size * 1e-9) * [0.9, 1, 1, 1, 3] for size in sizes]
    figure = plots.alpha_beta(sizes, seconds, 1e-4, 1e-9, "title")
    left, right = figure.axes
    dots, line = left.lines[0], left.lines[-1]
    assert np.allclose(dots.get_ydata(), [100 + size / 1e3 for size in sizes])
    assert np.allclose(line.get_ydata(), 100 + line.get_xdata() / 1e3)
    assert np.allclose(right.lines[0].get_ydata(), sizes / (1e-4 + np.array(sizes) * 1e-9) / 1e9)
    assert figure.get_suptitle() == "title"
    assert left.get_xlabel() and left.get_ylabel() and right.get_ylabel() == "GB/s"
    assert [t.get_text() for t in left.get_xticklabels()][:2] == ["8 B", "32 B"]


@pytest.mark.parametrize(
    ("nbytes", "name"), [(0, "0 B"), (8, "8 B"), (2048, "2 KiB"), (3 * 2**19, "1.5 MiB")]
)
def test_size_name(nbytes, name):
    assert plots.size_name(nbytes) == name


RESULT = {
    "kind": "CPU",
    "where": "2 CPU cores",
    "libraries": {"torch": "2.13.0"},
    "ranks": 2,
    "backend": "gloo",
    "when": "2026-01-31",
    "fit": {"alpha_seconds": 4e-4, "beta_seconds_per_byte": 2e-9},
}


def test_a_row_for_a_result_and_one_for_what_is_missing():
    table = plots.all_reduce_table([RESULT])
    assert table.rows == [
        ["2 CPU cores, torch 2.13.0", "2", "gloo", "400 µs", "0.50 GB/s", "2026-01-31"],
        ["GPU", "", "", "", "", "not measured yet"],
    ]


def test_what_was_measured_is_not_called_missing():
    table = plots.all_reduce_table([RESULT, RESULT | {"kind": "GPU", "where": "2 x H200"}])
    assert "not measured" not in repr(table)


def test_a_time_that_does_not_grow():
    flat = RESULT | {"fit": {"alpha_seconds": 4e-4, "beta_seconds_per_byte": 0.0}}
    assert plots.all_reduce_table([flat]).rows[0][4] == "not seen"
