"""A step's memory and the map of the cheapest ways are drawn as given."""

from types import SimpleNamespace

import pytest

import plots

MIB = 2**20


def tape(most: int) -> SimpleNamespace:
    moments = [{"parameters": 4 * MIB, "activations": m * MIB} for m in (0, most, 1, 0)]
    return SimpleNamespace(moments=moments, begins={"forward": 0, "backward": 2, "update": 3})


def test_the_fullest_moment_of_each_step_is_marked():
    figure = plots.step_memory({"DDP": tape(6), "FSDP2": tape(2)})
    first, second = figure.axes
    for axes, total in ((first, "10.0 MiB"), (second, "6.0 MiB")):
        words = [text.get_text() for text in axes.texts]
        assert words == [total, "forward", "backward", "update"]
        assert [line.get_xdata()[0] for line in axes.lines] == [1, 2, 3]
    assert first.get_ylim() == second.get_ylim()


def test_parts_have_a_color_under_the_names_of_the_formula_too():
    moments = [{"parameters": MIB, "optimizer": 2 * MIB, "logits": m * MIB} for m in (0, 5, 1)]
    given = SimpleNamespace(moments=moments, begins={"forward": 0, "backward": 1, "update": 2})
    figure = plots.step_memory({"alone": given})
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["parameters", "optimizer state", "logits"]
    assert figure.axes[0].texts[0].get_text() == "8.0 MiB"


@pytest.mark.given("1e-09", "1e-08", "1e-07")
def test_the_map_names_what_it_shows():
    rows = [
        {"parameters": p, "ranks": n, "way": way}
        for (p, n), way in {(1, 1): "DDP", (10, 1): None, (1, 2): "DDP", (10, 2): "FSDP2"}.items()
    ]
    figure = plots.cheapest_ways(rows, ["DDP", "never", "FSDP2"])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["DDP", "FSDP2", "nothing fits"]
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "2"]
    assert axes.collections[0].get_array().ravel().tolist() == [0, 3, 0, 2]
