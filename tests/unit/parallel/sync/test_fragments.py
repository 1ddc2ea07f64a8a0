"""Which parameters make a fragment, and when it meets."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from rankbook.parallel.sync import cut_evenly, is_due


def parameters(*sizes: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(size)) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "count", "cut"),
    [
        ((5, 5, 5, 5), 2, [[5, 5], [5, 5]]),
        ((9, 1, 1, 1), 2, [[9], [1, 1, 1]]),
        ((1, 1, 1, 9), 2, [[1, 1, 1], [9]]),
        ((1, 1, 9), 3, [[1], [1], [9]]),
        ((2, 2, 2, 2, 2), 1, [[2, 2, 2, 2, 2]]),
        ((3, 3, 3, 3, 3), 2, [[3, 3, 3], [3, 3]]),
    ],
)
def test_neighbours_about_as_many_entries_in_each(sizes, count, cut):
    found = cut_evenly(parameters(*sizes), count)
    assert [[p.numel() for p in fragment] for fragment in found] == cut


@pytest.mark.parametrize("count", [0, 4])
def test_more_fragments_than_parameters_are_refused(count):
    with pytest.raises(ValueError, match="3 parameters do not make"):
        cut_evenly(parameters(1, 1, 1), count)


@pytest.mark.parametrize(("every", "count"), [(1, 1), (10, 1), (10, 3), (12, 4), (2, 5)])
def test_each_meets_once_in_every_so_many_steps_and_the_last_at_their_end(every, count):
    times = [
        [s for s in range(1, 5 * every + 1) if is_due(s, every, f, count)] for f in range(count)
    ]
    assert times[-1] == [every * i for i in range(1, 6)]
    for met in times:
        assert len(met) == 5
        assert {b - a for a, b in pairwise(met)} == {every}
    if count <= every:  # never two in one step
        assert len({t for met in times for t in met}) == 5 * count
