"""A checkpoint of any layout loads in any other: every pair of seven, to the last bit.

Parameters, both moments of AdamW and its counts of steps.
"""

from itertools import product

import pytest

from rankbook.models import TransformerLM
from rankbook.parallel.mesh import Layout
from tests.distributed.launch import run_ranks
from tests.distributed.mesh_checkpoint_ranks import CONFIG, LAYOUTS, work

pytestmark = pytest.mark.long

NAMES = [f"{layout} shard={layout.shard}" for layout in (Layout.parse(*each) for each in LAYOUTS)]
WHOLE = 4 * len(list(TransformerLM(CONFIG).parameters()))  # with two moments and a count each


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    kept = str(tmp_path_factory.mktemp("kept"))
    found = []
    for worlds, todo in (([4, 2, 1], "save"), ([8], "save and load"), ([4, 2, 1], "load")):
        folder = tmp_path_factory.mktemp("ranks")
        found += run_ranks(work, folder, sum(worlds), kept, worlds, todo)
    return found


@pytest.mark.parametrize(("saved", "loaded"), list(product(NAMES, NAMES)))
def test_every_pair_is_bit_equal(ranks, saved, loaded):
    found = [rank[f"{saved} -> {loaded}"] for rank in ranks if f"{saved} -> {loaded}" in rank]
    layout = Layout.parse(loaded.split()[0])
    assert len(found) == layout.ranks
    assert min(found) > 0, "a tensor differs"
    assert sum(found) == WHOLE * layout.dp * layout.tp  # each stage has what is its own
