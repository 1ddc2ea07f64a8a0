"""The norm for clipping, of a model cut in all ways at once: that of one process.

float32 rounds at 6e-8; a norm adds up 40,000 squares, in another order on each layout.
"""

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.mesh_norm_ranks import LAYOUTS, MAX_NORM, everything, whole

pytestmark = pytest.mark.long

ROUNDING = 2e-6


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 8)


@pytest.fixture(scope="module")
def norm():
    return whole()["norm"].item()


@pytest.mark.parametrize("layout", [" ".join(layout) for layout in LAYOUTS])
def test_the_norm_and_what_it_clips_are_one_process(ranks, norm, layout):
    assert norm > 2 * MAX_NORM  # or nothing would be clipped
    for found in ranks:
        assert found["ours"][layout]["norm"].item() == pytest.approx(norm, rel=ROUNDING)
        assert found["ours"][layout]["worst"] < ROUNDING


def test_sums_that_were_left_to_do_are_done_first(ranks, norm):
    """Without that the norm would be wrong: the naive one takes parts of sums for gradients."""
    for found in ranks:
        partial = found["partial"]
        assert partial["left"] >= 4  # both norms of a layer, weights and biases
        assert partial["norm"].item() == pytest.approx(norm, rel=ROUNDING)
        assert partial["worst"] < ROUNDING
        assert abs(partial["naive"].item() / norm - 1) > 1e-3


def test_torchs_own_raises_for_mixtures_and_ours_does_not(ranks):
    """As page 62 says, of torch 2.13."""
    for found in ranks:
        told, one = found["torch"], found["torch"]["one process"]
        assert "got mixed torch.Tensor and DTensor" in told["mixed"]
        assert "must have the same mesh" in told["meshes"]
        for name in ("mixed", "meshes"):
            assert told[f"{name}, ours"] == pytest.approx(one, rel=ROUNDING)


def test_torchs_own_takes_a_stage_for_the_model(ranks, norm):
    """It does not know of the pipeline, and says nothing."""
    of_stages = {round(found["torch"]["of a stage"], 4) for found in ranks}
    assert len(of_stages) == 4 and max(of_stages) < 0.9 * norm
    assert sum(one**2 for one in of_stages) ** 0.5 == pytest.approx(norm, rel=1e-3)
