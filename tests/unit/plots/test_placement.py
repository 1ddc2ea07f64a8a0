"""Ranks on their nodes: what is drawn is what torchrun told them."""

import pytest

import plots


def rank(number: int, local: int, node: int, of_node: int, world_size: int = 3) -> dict:
    return {
        "RANK": str(number), "LOCAL_RANK": str(local), "GROUP_RANK": str(node),
        "LOCAL_WORLD_SIZE": str(of_node), "WORLD_SIZE": str(world_size),
    }  # fmt: skip


UNEQUAL = [rank(2, 0, 1, 1), rank(0, 0, 0, 2), rank(1, 1, 0, 2)]


def words(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_nodes_of_unequal_size():
    drawn = words(plots.nodes(UNEQUAL, {1: " 2"}))
    assert {"node 0", "node 1 2", "0 + 0 = 0", "0 + 1 = 1", "2 + 0 = 2"} <= set(drawn)


@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        ([], "what torchrun told every rank"),
        (UNEQUAL[:2], "what torchrun told every rank"),
        ([rank(0, 0, 1, 1), rank(1, 0, 0, 2), rank(2, 1, 0, 2)], "does not follow its node's"),
    ],
)
def test_ranks_that_do_not_add_up(ranks, sentence):
    with pytest.raises(ValueError, match=sentence):
        plots.nodes(ranks)
