"""A model on a mesh of ranks computes what one process computes, in whatever layout."""

import pytest

from rankbook.models import TransformerLM
from tests.distributed.launch import run_ranks
from tests.distributed.mesh_ranks import CONFIG, STEPS, cross_entropy, held, several

pytestmark = pytest.mark.long

WHOLE = sum(p.numel() for p in TransformerLM(CONFIG).parameters())
LAYOUTS = {
    2: [("tp=2", "none", None), ("pp=2", "none", "gpipe"), ("dp=2", "fsdp", None)],
    4: [
        ("tp=4", "none", None),
        ("pp=2,tp=2", "none", None),
        ("dp=2,tp=2", "fsdp", None),
        ("dp=4", "2", None),
        ("pp=2,dp=2", "fsdp", "zbv"),
        ("pp=2,dp=2", "fsdp", "loopedbfs"),
        ("cp=4", "none", None),
        ("dp=2,cp=2", "fsdp", None),
        ("pp=2,cp=2", "none", "zbv"),
        ("cp=2,tp=2", "none", None),
    ],
    8: [
        ("pp=2,dp=2,tp=2", "none", None),
        ("dp=4,tp=2", "2", None),
        ("pp=2,tp=4", "none", "interleaved1f1b"),
        ("pp=2,dp=2,tp=2", "fsdp", "zbv"),
        ("pp=2,cp=2,tp=2", "none", "interleaved1f1b"),
    ],
}
# float32 rounds by 2^-24 at each addition. A gradient sums over 16 x 16 tokens, in eight kinds of
# products one after the other; the errors grow with the square root of their number.
TOLERANCE = 8 * 2**-24 * (16 * 16) ** 0.5


@pytest.mark.parametrize("ranks", LAYOUTS)
def test_every_layout_computes_what_one_process_computes(tmp_path, ranks):
    found = run_ranks(several, tmp_path, ranks, LAYOUTS[ranks])
    for index, layout in enumerate(LAYOUTS[ranks]):
        for rank in found:
            assert rank[index]["gradient"] < TOLERANCE, layout
            assert rank[index]["loss and norm"] < STEPS * TOLERANCE, layout
            assert rank[index]["parameters"] < STEPS * TOLERANCE, layout


def test_a_rank_holds_its_part_only(tmp_path):
    layouts = [("dp=4", "fsdp"), ("pp=2,tp=2", "none"), ("dp=4", "none")]
    found = run_ranks(held, tmp_path, 4, layouts)
    shared, cut, copied = (max(rank[i] for rank in found) for i in range(3))
    assert copied == WHOLE
    assert shared < 0.3 * WHOLE
    assert cut < 0.3 * WHOLE  # but for norms and biases, which tp leaves whole


@pytest.mark.parametrize(("ranks", "vocab_size"), [(2, 51), (4, 51), (4, 48)])
def test_cross_entropy_without_gathering_logits(tmp_path, ranks, vocab_size):
    for of_rank in run_ranks(cross_entropy, tmp_path, ranks, vocab_size):
        assert of_rank["loss"] < 1e-14 and of_rank["gradient"] < 1e-15
