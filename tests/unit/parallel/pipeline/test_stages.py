"""Which layers a stage gets, and which stages a rank."""

import pytest

from rankbook.parallel.pipeline import find_schedule, schedule_names, split_layers


@pytest.mark.parametrize("layers", range(1, 14))
def test_split_is_balanced_and_complete(layers):
    for stages in range(1, layers + 1):
        parts = split_layers(layers, stages)
        assert [layer for part in parts for layer in part] == list(range(layers))
        sizes = [len(part) for part in parts]
        assert len(sizes) == stages and max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)  # the last stage has the head to do as well


@pytest.mark.parametrize("stages", [0, 9])
def test_impossible_split_is_one_sentence(stages):
    with pytest.raises(ValueError, match=f"{stages} stages cannot share 8 layers"):
        split_layers(8, stages)


def test_placement():
    assert [find_schedule("gpipe").stages_of(r, 3, 3) for r in range(3)] == [[0], [1], [2]]
    loop = find_schedule("loopedbfs")
    assert [loop.stages_of(r, 2, 6) for r in range(2)] == [[0, 2, 4], [1, 3, 5]]
    v = find_schedule("zbv")
    assert [v.stages_of(r, 3, 6) for r in range(3)] == [[0, 5], [1, 4], [2, 3]]


@pytest.mark.parametrize("name", schedule_names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_stage_is_on_one_rank(name, ranks):
    schedule = find_schedule(name)
    stages = ranks * schedule.stages_per_rank
    placed = [s for rank in range(ranks) for s in schedule.stages_of(rank, ranks, stages)]
    assert sorted(placed) == list(range(stages))
