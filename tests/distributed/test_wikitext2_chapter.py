"""Page 27's claims: about the best model, on ranks; and about what was recorded, in the files."""

import itertools
import math

import pytest
import torch

from benchmarks.wikitext2_alone import RATES
from plots import recorded
from rankbook.models import TransformerLM, token_loss
from rankbook.training import mean_loss
from rankbook.training.checkpoint import PipelineCheckpoints
from tests.distributed.launch import run_ranks
from tests.distributed.pipeline_ranks import CONFIG, batches
from tests.distributed.wikitext2_ranks import best_model

# float32 rounds a loss of about 4 by 2^-24 of it at each addition; errors grow with the square
# root of a batch's tokens, of which there are fewer than 1,000
ROUNDING = 8 * 2**-24 * 1000**0.5


def test_the_alias_is_ruined_and_the_checkpoint_is_the_model_anywhere(tmp_path):
    ranks = run_ranks(best_model, tmp_path, 4, str(tmp_path / "best"))
    model = TransformerLM(CONFIG)
    PipelineCheckpoints(tmp_path / "best").newest().load_into(model)
    with torch.no_grad():
        one = mean_loss(lambda tokens, targets: token_loss(model(tokens), targets), batches())
    for found in ranks:
        assert found["moved"] > 0.01
        assert abs(found["ruined"] - one) > 0.1
        assert found["kept"] == pytest.approx(one, abs=ROUNDING)
        assert found["four"] == pytest.approx(one, abs=ROUNDING)


@pytest.fixture
def epoch():
    (result,) = recorded("wikitext2-epoch")
    runs = {}
    for row in result["rows"]:
        runs.setdefault(row["run"], {})[row["step"]] = row["valid loss"]
    return result, runs


def test_four_ranks_were_recorded_as_one_process_is(epoch):
    result, runs = epoch
    ranks, one = runs["4 ranks"], runs["one process"]
    assert list(ranks) == list(one) and max(one) == 1464
    first = zip(*(result["training"][name][:2] for name in ("4 ranks", "one process")), strict=True)
    rounding = 8 * 2**-24 * math.sqrt(40 * 35)
    assert all(a[0] == b[0] <= 24 and abs(a[1] - b[1]) < rounding for a, b in first)
    assert all(abs(ranks[step] - one[step]) < 0.005 for step in one)
    assert all(a - b > 0.005 for a, b in itertools.pairwise(one.values()))


def test_after_48_steps_the_trainings_differ_by_more_than_rounding(epoch):
    """So the bound on the first two means is no bound that everything passes."""
    ranks, one = (epoch[0]["training"][name][3] for name in ("4 ranks", "one process"))
    assert ranks[0] == one[0] == 48
    assert abs(ranks[1] - one[1]) > 8 * 2**-24 * math.sqrt(40 * 35)


def test_what_each_row_of_the_recipe_changes():
    (result,) = recorded("wikitext2-recipe")
    parts = "norm", "dropout", "optimizer", "schedule", "start"
    changed = [
        [part for part in parts if new[part] != old[part]]
        for old, new in itertools.pairwise(result["rows"])
    ]
    single = [["dropout"], ["norm"], ["schedule"], ["start"]]
    assert changed == [*single[:2], ["optimizer", "schedule"], *single[2:]]
    assert RATES == {"SGD": 5.0, "AdamW": 0.006}


def test_the_reference_and_all_others_beat_the_unigram_model(epoch):
    result, runs = epoch
    assert all(loss < result["unigram"] for run in runs.values() for loss in run.values())
    assert runs.keys() >= {"4 ranks", "one process", "reference"}


def test_a_pipeline_on_two_cores_was_slower_than_two_threads():
    (result,) = (r for r in recorded("pipelines") if r["kind"] == "CPU")
    rows = [row for row in result["rows"] if row["schedule"] != "unsplit"]
    assert all(row["times two threads"] < 1 for row in rows)
