"""Page 62 shows these failures; measured with torch 2.13. If one goes, the page changes.

The benchmark's rows are those of `benchmarks.layout_matrix`; some of them are tried again here.
"""

import pytest

from benchmarks.layout_matrix import LAYOUTS, NAME
from benchmarks.record import recorded
from rankbook.parallel.trials import LAYOUT_VARIANTS
from tests.distributed.launch import run_ranks
from tests.distributed.three_dimensions_ranks import (
    clip_by_torch,
    ddp_on_replicas,
    raise_on_one,
    told,
    try_all,
)

pytestmark = pytest.mark.long

ROWS = recorded(NAME)["rows"]
AGAIN = [
    ("pp=2,dp=2,tp=2", way)
    for way in ("norms not cut", "DDP", "batch by rank", "positions from 0", "torch's clipping")
] + [("dp=4,tp=2", "HSDP"), ("pp=2,tp=4", "average over tp"), ("dp=8", "sum of pieces")]


def test_the_record_has_every_way_on_every_layout():
    assert [(row["way"], row["layout"]) for row in ROWS] == [
        (way, layout) for way in LAYOUT_VARIANTS for layout in LAYOUTS
    ]


@pytest.mark.slow
def test_trials_come_out_as_recorded(tmp_path):
    recorded = {(row["layout"], row["way"]): row for row in ROWS}
    ranks = run_ranks(try_all, tmp_path, 8, AGAIN)
    assert all(rank == ranks[0] for rank in ranks)
    for outcome in ranks[0]:
        row = recorded[outcome["layout"], outcome["way"]]
        assert outcome["verdict"] == row["verdict"]
        assert outcome["errors"] == pytest.approx(row["errors"], rel=0.02, abs=1e-5)
        assert outcome["norms"] == pytest.approx(row["norms"], rel=0.02, abs=1e-5)


def test_a_rank_that_raises_alone_strands_nobody(tmp_path):
    for broken, after in run_ranks(raise_on_one, tmp_path, 8):
        assert (broken["verdict"], broken["step"]) == ("raises", 1)
        assert broken["message"] == "RuntimeError: this stage is broken"
        assert after["verdict"] == "right"


def test_ddp_on_plain_replicas_fails_because_of_the_schedule(tmp_path):
    for two, one, never_rebuilt in run_ranks(ddp_on_replicas, tmp_path, 2):
        assert (two["verdict"], two["step"]) == ("raises", 2)
        assert "rebuilt_param_indices_" in two["message"]
        assert one["verdict"] == never_rebuilt["verdict"] == "right"


def test_torchs_norm_is_one_stages(tmp_path):
    norms = [rank["norm"] for rank in run_ranks(clip_by_torch, tmp_path, 8)]
    assert len({round(norm, 5) for norm in norms[:4]}) == 1
    assert abs(norms[0] / norms[4] - 1) > 0.05


def test_torchs_clipping_raises_for_mixtures(tmp_path):
    for mixed, meshes in run_ranks(told, tmp_path, 4):
        assert "mixed torch.Tensor and DTensor" in mixed
        assert "must have the same mesh" in meshes
