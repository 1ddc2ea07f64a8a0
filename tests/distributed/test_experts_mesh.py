"""A model with experts on a mesh computes what one process computes, in whatever layout."""

import pytest

from tests.distributed.experts_mesh_ranks import CONFIG, STEPS, several
from tests.distributed.launch import run_ranks

pytestmark = pytest.mark.long

EXPERTS = CONFIG.layers * CONFIG.experts * 2 * CONFIG.d_model * CONFIG.d_hidden
LAYOUTS = {
    1: [("ep=1", "none", None, "bias"), ("ep=1", "none", None, "loss")],
    2: [
        ("ep=2", "none", None, "bias"),
        ("ep=2", "none", None, "loss"),
        ("ep=2", "none", None, "capacity"),
        ("dp=2", "fsdp", None, "bias"),
        ("tp=2", "none", None, "loss"),
    ],
    4: [
        ("ep=4", "none", None, "bias"),
        ("dp=2,ep=2", "none", None, "bias"),
        ("dp=2,ep=2", "none", None, "loss"),
        ("dp=2,ep=2", "fsdp", None, "capacity"),
        ("pp=2,ep=2", "none", None, "bias"),
        ("pp=2,ep=2", "none", "zbv", "capacity"),
        ("ep=2,tp=2", "none", None, "loss"),
        ("ep=2,cp=2", "none", None, "loss"),
    ],
    8: [
        ("pp=2,dp=2,ep=2", "fsdp", None, "capacity"),
        ("dp=2,ep=2,tp=2", "fsdp", None, "loss"),
        ("ep=2,cp=2,tp=2", "none", None, "loss"),
        ("dp=4,ep=2", "2", None, "bias"),
    ],
}
# as in test_mesh.py; a token goes through twice as many products in the experts
TOLERANCE = 16 * 2**-24 * (16 * 16) ** 0.5


@pytest.mark.parametrize("ranks", LAYOUTS)
def test_every_layout_computes_what_one_process_computes(tmp_path, ranks):
    found = run_ranks(several, tmp_path, ranks, LAYOUTS[ranks])
    for index, layout in enumerate(LAYOUTS[ranks]):
        for rank in found:
            one = rank[index]
            assert one["gradient"] < TOLERANCE, layout
            assert one["loss and norm"] < STEPS * TOLERANCE, layout
            assert one["parameters"] < STEPS * TOLERANCE, layout
            assert one["biases"] == 0, layout
            assert (one["dropped"] > 0.01) == (layout[3] == "capacity"), layout
            assert 1.0 < one["balance"] < 1.5 and 1.2 < one["busiest"] < 4.0, layout
            cuts = ranks // 2 ** sum(alike in layout[0] for alike in ("tp=2", "cp=2"))
            if layout[0] in ("dp=2,ep=2", "dp=4,ep=2") and layout[1] != "fsdp":
                cuts = 2 if layout[1] == "none" else 4
            assert one["experts here"] == EXPERTS / cuts, layout
