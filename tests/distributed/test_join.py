"""Join, what it makes of the parameters, where it goes wrong, and `equal_steps` in its place.

What torch does is asserted as measured with torch 2.13. Where such a test fails after an update of
torch, the pages `T21_join`, `T22_join_own_class` and `18_uneven_inputs` have to change.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.join_cures import everything
from tests.distributed.launch import run_ranks
from tests.waiting import SOON

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
EXACT = 1e-12  # float64, summed in another order
ABORTED = -6  # SIGABRT: gloo gave up in a thread of its own, where Python can catch nothing


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    return request.param


@pytest.fixture(scope="module")
def results(ranks, tmp_path_factory):
    """What every rank found, by what it did; one launch for all of it."""
    by_rank = run_ranks(everything, tmp_path_factory.mktemp("ranks"), ranks)
    return {work: [of_rank[work] for of_rank in by_rank] for work in by_rank[0]}


def the_same(results: list):
    """What every rank found, alike."""
    assert all(result == results[0] for result in results)
    return results[0]


def test_every_way_gives_what_one_process_computes(ranks, results):
    counts = [5 + rank for rank in range(ranks)]
    for rank, found in enumerate(results["ways"]):
        own = list(range(counts[rank]))
        assert found["drop"]["took"] == own[:5]
        assert found["pad"]["took"] == [n % counts[rank] for n in range(max(counts))]
        assert all(found[way]["took"] == own for way in ("join", "join-remaining", "has-data"))
        assert all(found[way]["off"] < EXACT for way in found)
        assert all(found[way]["seconds"] > 0 for way in found)
        # only this one is as if each sample had been there once, each step a mean of its samples
        assert found["has-data"]["bias"] < EXACT
        assert all(found[way]["bias"] > 1e-4 for way in found if way != "has-data")


def test_how_much_each_input_counts(ranks, results):
    counts = [5 + rank for rank in range(ranks)]
    found = results["ways"][0]
    assert all(
        each["weights"] == found[way]["weights"]
        for of in results["ways"]
        for way, each in of.items()
    )
    weights = {way: [w for of_rank in found[way]["weights"] for w in of_rank] for way in found}
    assert weights["join"] == [1] * sum(counts)
    tail = [[ranks / sum(n < other for other in counts) for n in range(c)] for c in counts]
    expected = pytest.approx([w for of_rank in tail for w in of_rank])
    assert weights["join-remaining"] == expected and weights["has-data"] == expected
    assert weights["drop"] == [float(n < 5) for c in counts for n in range(c)]
    longest = max(counts)
    assert weights["pad"] == [1.0 + (n + c < longest) for c in counts for n in range(c)]


def test_ddp_in_join(results):
    found = the_same(results["ddp"])
    for options in ("static_graph", "find_unused_parameters", "gradient_as_bucket_view"):
        assert found[options] < EXACT
    assert found["sgd twice"] < EXACT
    # silently wrong: joined ranks step with a gradient of their own last batch, ...
    for name in ("zero sgd", "zero momentum", "zero adam", "zero remaining"):
        assert found[name] > 1e-3, name
    # ... or do not step, and the optimizer's state is not sent to them
    assert found["momentum twice"] > 1e-4 and found["adam twice"] > 1e-4
    # a hook divides by itself, by all ranks
    assert found["comm hook: all"] < EXACT and found["comm hook: remaining"] > 1e-4


def test_with_zero_the_first_joiners_last_step_is_repeated_and_later_inputs_are_lost(
    ranks, results
):
    found = the_same(results["ddp"])["zero counts"]
    repeated = ranks  # rank 0, the owner, has its fifth gradient in every later step
    once = [[1] * 4 + [repeated] + [0] * rank for rank in range(ranks)]
    assert found == [count for of_rank in once for count in of_rank]


def test_ranks_drift_apart_where_an_optimizer_keeps_a_state(results):
    after_epoch_1, in_epoch_2 = the_same(results["drift"])
    assert after_epoch_1 == 0 and in_epoch_2 > 1e-4  # same parameters, other momentum


def test_a_rank_without_any_input(results):
    assert the_same(results["nothing_on_rank_0"]) < EXACT


def test_a_compiled_ddp_can_join(results):
    assert max(the_same(results["compiled"])) < EXACT


def test_early_termination_is_raised_on_every_rank(ranks, results):
    short, *others = results["throw"]
    assert short == (5, "Rank 0 exhausted all inputs.")
    told = "Detected at least one rank that exhausted inputs. Throwing across all ranks."
    assert others == [(5, told)] * (ranks - 1)


def test_even_inputs_need_no_join(results):
    assert the_same(results["even_without_join"]) < EXACT


def test_statistics_of_batch_norm_are_the_last_joiners(ranks, results):
    found = the_same(results["batch_norm"])
    assert found["seen"] == 5 + ranks - 1 and found["off"] < EXACT


def test_joinables(ranks, results):
    inputs = sum(5 + rank for rank in range(ranks))
    for rank, found in enumerate(results["joinables"]):
        # those that a rank heard of before it joined, and all; at 2 ranks 10, 11 and then 11, 11
        assert found["count"] == [sum(min(5 + rank, 5 + r) for r in range(ranks)), inputs]
        assert abs(found["mean"]) < EXACT
        _, weight, counted, wrong = found["three"]
        assert (weight, counted, wrong < EXACT) == (3 * inputs - ranks, inputs, True)
        assert found["three"] == results["joinables"][0]["three"]
        assert found["after"] == "Join.__exit__DistributedDataParallel.forward"
        own, left = 5 + rank, ranks - 1 - rank  # inputs; steps to shadow
        once = ["forward", "backward", "step", "all_reduce", "all_reduce"]
        hooks = ["DistributedDataParallel", "RunningMean", "Counter"]
        shadow = ["ask", *(f"main_hook {name}" for name in hooks)]
        end = ["exhausted", *shadow * left, "ask", *(f"post_hook {name}" for name in hooks)]
        assert found["order"] == once * own + end
        assert found["inside"].count("gradients") == left
        assert found["exhausted"] == sorted(found["exhausted"])
        assert found["main_hooks"] == [3 * (ranks - 1 - r) for r in range(ranks)]
        assert found["asked"] == [5 + ranks] * ranks  # each step, and once more: nobody is left


def test_a_sharded_model_is_no_joinable(results):
    said = the_same(results["refused"])
    assert said == {
        "FSDP1": "'Sequential' object has no attribute 'join_hook'",
        "FSDP2": "'FSDPSequential' object has no attribute 'join_hook'",
    }


def test_lockstep_goes_where_join_does_not(ranks, results):
    for found in results["cured"]:
        assert ("pipelines" in found) == (ranks == 4)
        for name, wrong in found.items():
            assert wrong < (1e-6 if name == "pipelines" else EXACT), name  # those are float32


def test_what_cannot_be_meant_is_one_sentence_on_every_rank(ranks, results):
    empty, accumulate, pad, way, counts, mean, nothing = the_same(results["wrong_calls"])
    assert empty.startswith(f"1 of {ranks} ranks have no batch at all")
    assert accumulate == "accumulate 0 gives no turns; use 1 or more"
    held = [3 * rank for rank in range(ranks)]
    assert pad == f"how 'pad' needs a batch on every rank, but they have {held}"
    assert way.startswith("how 'joined' is unknown; use join, join-remaining, has-data, drop, pad")
    assert counts == f"counts [1] are of 1 ranks, not of {ranks}"
    assert mean.startswith("a mean of nothing") and nothing == "0"


@pytest.fixture(scope="module")
def troubles(tmp_path_factory):
    """Of both ranks of each case: exit status (None: killed in the end), what was said, stderr."""
    folder = tmp_path_factory.mktemp("troubles")
    command = [sys.executable, "-m", "tests.distributed.join_troubles", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=SOON)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize(
    ("case", "waits"),
    [("without Join", 1), ("disabled", 1), ("an exception on one rank", 0)],
)
def test_a_rank_waits_for_one_that_does_not_come(case, waits, troubles):
    ends = {"an exception on one rank": "ValueError: a sample that cannot be read"}
    (status, said, _), (_, other, _) = troubles[case][waits], troubles[case][1 - waits]
    assert status is None and ("Timed out" in said or "timeout" in said), said
    assert other == ends.get(case, "done")


@pytest.mark.parametrize(
    ("case", "lengths"),
    [
        ("validation", None),
        ("two forwards", None),
        ("accumulation", None),
        ("another order", None),
        ("mixed dtypes", "8 vs 4"),
    ],
)
def test_collectives_that_do_not_match_abort_a_process(case, lengths, troubles):
    aborted = [error for status, _, error in troubles[case] if status == ABORTED]
    assert aborted, troubles[case]
    for error in aborted:
        assert "terminate called after throwing an instance of 'gloo::EnforceNotMet'" in error
        assert f"{lengths or ''}. Received data size doesn't match expected size." in error
    assert not any(said == "done" for _, said, _ in troubles[case])


@pytest.mark.parametrize("case", ["validation, the module itself", "mixed dtypes, even"])
def test_what_does_match_is_no_trouble(case, troubles):
    assert [(status, said) for status, said, _ in troubles[case]] == [(None, "done")] * 2
