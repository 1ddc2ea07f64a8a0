"""The whole matrix: seven wrappings of a stage, under seven schedules, beside the unsplit model.

Measured with torch 2.13. Where a cell here fails after an update of torch, chapter 22 changes.
"""

import json

import pytest

from benchmarks.record import RESULTS
from rankbook.parallel import WRAPPINGS, schedule_names
from rankbook.parallel.wrapping_trials import RAISES, RIGHT, TOLERANCE, WRONG
from tests.distributed.launch import run_ranks
from tests.distributed.wrapping_ranks import (
    open_files,
    raise_on_one,
    try_all,
    two_microbatches,
    wrong_trials,
)

ASSERT = "RuntimeError: params_.size() == rebuilt_param_indices_.size() INTERNAL ASSERT FAILED"
UNDEFINED = "RuntimeError: Encountered gradient which is undefined, but still allreduced by DDP"
# what is not right: verdict, relative error in percent (0: none), parameters without a gradient
NOT_RIGHT = {
    ("interleavedzb", "fully_shard each layer"): (WRONG, 49, 24),
    ("zbv", "fully_shard each layer"): (WRONG, 51, 24),
    ("dualpipev", "fully_shard each layer"): (WRONG, 14, 0),
    ("gpipe", "DDP"): (RAISES, 0, 0),
    ("interleaved1f1b", "DDP"): (RAISES, 0, 0),
    ("loopedbfs", "DDP"): (RAISES, 0, 0),
    ("interleavedzb", "DDP"): (RAISES, 57, 0),
    ("zbv", "DDP"): (RAISES, 57, 0),
    ("dualpipev", "DDP"): (RAISES, 33, 0),
    ("interleavedzb", "DDP find_unused"): (WRONG, 57, 0),
    ("zbv", "DDP find_unused"): (WRONG, 57, 0),
    ("dualpipev", "DDP find_unused"): (RAISES, 33, 0),
    ("gpipe", "DDP static_graph"): (WRONG, 47, 0),
    ("1f1b", "DDP static_graph"): (WRONG, 47, 0),
    ("interleaved1f1b", "DDP static_graph"): (WRONG, 57, 0),
    ("loopedbfs", "DDP static_graph"): (WRONG, 57, 0),
    ("interleavedzb", "DDP static_graph"): (WRONG, 57, 0),
    ("zbv", "DDP static_graph"): (WRONG, 57, 0),
    ("dualpipev", "DDP static_graph"): (WRONG, 57, 0),
}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    """The outcomes of every rank: one launch for all, as a trial that fails harms no other."""
    return run_ranks(try_all, tmp_path_factory.mktemp("ranks"), 4, deadline=180.0)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("schedule", schedule_names())
def test_wrapping(schedule, wrapping, matrix):
    asked = {"schedule": schedule, "wrapping": wrapping}
    by_rank = [next(o for o in rank if asked.items() <= o.items()) for rank in matrix]
    assert by_rank == by_rank[:1] * 4
    found = by_rank[0]
    verdict, percent, missing = NOT_RIGHT.get((schedule, wrapping), (RIGHT, 0, 0))
    assert (found["verdict"], found["missing"]) == (verdict, missing), found
    if percent:
        assert 100 * found["error"] == pytest.approx(percent, abs=1), found
    else:
        assert found["error"] <= TOLERANCE
    if verdict == RAISES:
        expected = UNDEFINED if wrapping == "DDP find_unused" else ASSERT
        assert found["step"] == 2 and found["message"].startswith(expected), found
    else:
        assert (found["step"], found["message"]) == (0, "")


def test_ddp_is_right_under_1f1b_only_by_the_number_of_microbatches(tmp_path):
    for found in run_ranks(two_microbatches, tmp_path, 4):
        assert (found["verdict"], found["step"]) == (RAISES, 2)
        assert found["message"].startswith(ASSERT)


def test_the_recorded_matrix_says_the_same():
    """The file that the chapter draws, against what is asserted above of a run."""
    rows = json.loads((RESULTS / "wrappings-cpu-4.json").read_text("utf-8"))["rows"]
    assert len(rows) == len(schedule_names()) * len(WRAPPINGS)
    for row in rows:
        expected = NOT_RIGHT.get((row["schedule"], row["wrapping"]), (RIGHT, 0, 0))
        assert (row["verdict"], round(100 * row["error"]), row["missing"]) == expected, row


def test_an_error_on_one_rank_ends_the_trial_on_all(tmp_path):
    for result in run_ranks(raise_on_one, tmp_path, 4):
        assert result["broken"]["verdict"] == RAISES and result["broken"]["step"] == 1
        assert result["broken"]["message"] == "RuntimeError: this stage is broken"
        assert result["seconds"] < 15  # the others did not wait for their time-out of 20 s
        assert result["after"]["verdict"] == RIGHT


def test_failed_trials_leave_nothing_open(tmp_path):
    for counts in run_ranks(open_files, tmp_path, 4):
        assert counts[-1] <= counts[0] + 2, counts


def test_what_cannot_be_tried_is_one_sentence(tmp_path):
    trials = [("1f1b", "FSDP", 4), ("2f2b", "DDP", 4), ("1f1b", "DDP", 1), ("1f1b", "DDP", 4)]
    told = run_ranks(wrong_trials, tmp_path, 2, trials)
    wrapping, schedule, microbatches, ranks = told[0]
    assert told[1] == told[0]
    assert wrapping.startswith("wrapping 'FSDP' is unknown; use all_reduce after step, fully_shard")
    assert schedule.startswith("schedule '2f2b' is unknown; use gpipe, 1f1b")
    assert "schedule 1f1b needs at least as many microbatches as stages" in microbatches
    assert ranks == "a trial takes 4 ranks, but world_size is 2"
