"""Every wrapping of a stage, under every schedule, beside the unsplit model.

All of it with 4 microbatches, and with 2 and 8 what depends on that; the recorded result has all.
"""

import json

import pytest

from benchmarks.record import RESULTS
from rankbook.parallel.pipeline import schedule_names
from rankbook.parallel.trials import WRAPPINGS
from rankbook.parallel.trials.outcomes import CANNOT, RAISES, RIGHT, TOLERANCE
from tests.distributed.launch import run_ranks
from tests.distributed.wrapping_outcomes import COUNTS, expected, expected_of_2_11, first_words
from tests.distributed.wrapping_ranks import open_files, raise_on_one, try_all, wrong_trials

pytestmark = pytest.mark.long

CHANGING = "fully_shard each layer", "DDP"
TRIALS = [(s, w, 4) for s in schedule_names() for w in WRAPPINGS]
TRIALS += [(s, w, m) for m in (2, 8) for s in schedule_names() for w in CHANGING]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    """The outcomes of every rank: one launch for all, as a trial that fails harms no other."""
    return run_ranks(try_all, tmp_path_factory.mktemp("ranks"), 4, TRIALS)


def check(found, trial):
    verdict, percents, missing = expected(*trial)
    assert (found["verdict"], found["missing"]) == (verdict, missing), found
    assert len(found["errors"]) == len(percents), found
    for error, percent in zip(found["errors"], percents, strict=True):
        assert 100 * error == pytest.approx(percent, abs=1) if percent else error <= TOLERANCE
    if verdict == RAISES:  # the first step goes well, or seems to
        assert found["step"] == 2
    assert bool(found["message"]) == (verdict in (RAISES, CANNOT))
    assert found["message"].startswith(first_words(*trial)), found


@pytest.mark.parametrize("number", range(len(TRIALS)), ids=["-".join(map(str, t)) for t in TRIALS])
def test_wrapping(number, matrix):
    by_rank = [rank[number] for rank in matrix]
    assert by_rank == by_rank[:1] * 4
    check(by_rank[0], TRIALS[number])


@pytest.mark.parametrize("file", ["cpu-4", "torch-2.12"])
def test_the_recorded_matrix_says_the_same(file):
    """The files that the chapter draws, against what is asserted above of a run."""
    result = json.loads((RESULTS / f"wrappings-{file}.json").read_text("utf-8"))
    version = file.removeprefix("torch-") if "torch" in file else "2.13"
    assert result["libraries"]["torch"].startswith(f"{version}.")
    rows = {(row["schedule"], row["wrapping"], row["microbatches"]): row for row in result["rows"]}
    trials = [(s, w, m) for m in COUNTS for s in schedule_names() for w in WRAPPINGS]
    assert list(rows) == trials
    for trial, row in rows.items():
        check(row, trial)


def test_the_recorded_matrix_of_torch_2_11():
    """There plain DDP is right wherever backward passes are whole, and no V runs over gloo."""
    result = json.loads((RESULTS / "wrappings-torch-2.11.json").read_text("utf-8"))
    assert result["libraries"]["torch"].startswith("2.11.")
    assert len(result["rows"]) == len(COUNTS) * len(schedule_names()) * len(WRAPPINGS)
    for row in result["rows"]:
        trial = row["schedule"], row["wrapping"], row["microbatches"]
        verdict, percents, missing = expected_of_2_11(*trial)
        assert (row["verdict"], row["missing"]) == (verdict, missing), row
        assert [round(100 * error) for error in row["errors"]] == list(percents), row
        assert row["step"] == (1 if verdict == RAISES else 0)


def test_an_error_on_one_rank_ends_the_trial_on_all(tmp_path):
    """Also on those that wait: their time-out is longer than all of it may take."""
    for result in run_ranks(raise_on_one, tmp_path, 4):
        assert result["broken"]["verdict"] == RAISES and result["broken"]["step"] == 1
        assert result["broken"]["message"] == "RuntimeError: this stage is broken"
        assert result["after"]["verdict"] == RIGHT
        assert result["absent"]["verdict"] == CANNOT and result["absent"]["step"] == 0
        assert result["absent"]["message"].startswith("ModuleNotFoundError: No module named")


def test_failed_trials_leave_nothing_open(tmp_path):
    for counts in run_ranks(open_files, tmp_path, 4):
        assert counts[-1] <= counts[0] + 2, counts


def test_what_cannot_be_tried_is_one_sentence(tmp_path):
    trials = [("1f1b", "FSDP", 4), ("2f2b", "DDP", 4), ("1f1b", "DDP", 4)]
    told = run_ranks(wrong_trials, tmp_path, 2, trials)
    wrapping, schedule, ranks = told[0]
    assert told[1] == told[0]
    assert wrapping.startswith("wrapping 'FSDP' is unknown; use all_reduce after step, fully_shard")
    assert schedule.startswith("schedule '2f2b' is unknown; use gpipe, 1f1b")
    assert ranks == "a trial takes 4 ranks, but world_size is 2"
