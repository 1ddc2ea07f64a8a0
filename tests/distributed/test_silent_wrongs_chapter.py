"""Page 63's gallery: every bug with its wrong number and the cured one. Measured with torch 2.13.

The page's own cells run here on two ranks. What comes of them is compared with arithmetic, and
their gradients once more with one process, without `prove`.
"""

import json

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.silent_wrongs_ranks import PAGE, gallery, gradients, only_rank_0

TEXT = "\n".join("".join(cell["source"]) for cell in json.loads(PAGE.read_text("utf-8"))["cells"])
ROUNDING = 1e-5  # float32, sums of at most a hundred terms


def test_every_bug_of_the_gallery_is_wrong_by_its_number(tmp_path):
    for found in run_ranks(gallery, tmp_path, 2):
        assert len(found) == 17
        worst = {bug: numbers[1] for bug, numbers in found.items()}
        assert all(error > 0.01 for error in worst.values()), worst
        # 16 targets, of which nobody divided the gradient
        assert worst["scale of a pipeline"] == pytest.approx(16 - 1, rel=ROUNDING)
        assert worst["a sum summed again"] == pytest.approx(2 - 1, rel=ROUNDING)
        assert worst["optimizer first"] == pytest.approx(1, rel=ROUNDING)
        assert worst["a stale shard"] == pytest.approx(1 / 3, rel=ROUNDING)
        assert worst["compiled or wrapped first"] == worst["the same dropout"] == 1
        for bug in ("mean of means", "bias in a sum", "rows by rank", "fused qkv"):
            assert found[bug][0] > 1e-3  # the others' first loss is right
        proved = [loss for loss, _ in found.values() if loss is not None]
        assert len(proved) == 12 and sum(loss < ROUNDING for loss in proved) == 8


def test_without_prove_the_gradients_are_as_wrong_and_as_cured(tmp_path):
    ranks = run_ranks(gradients, tmp_path, 2)
    for bug in ranks[0]:
        wrong, cured = (max(found[bug][i] for found in ranks) for i in (0, 1))
        assert wrong > 0.05, bug
        assert cured < ROUNDING, bug


def test_a_full_tensor_on_rank_0_alone_spoils_rank_1s_next(tmp_path):
    waited, seen = run_ranks(only_rank_0, tmp_path, 2)
    assert waited == [True]
    assert seen == [1.0, 1.0, 2.0, 2.0]  # of two, and half of it is rank 0's one


def test_the_bugs_are_numbered_as_the_table_counts_them():
    at = [TEXT.index(f"**{number}. ") for number in range(1, 18)]
    assert at == sorted(at) and "**18. " not in TEXT
