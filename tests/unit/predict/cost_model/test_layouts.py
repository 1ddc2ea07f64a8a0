"""A step foretold: sums that can be done by hand."""

from dataclasses import replace

import pytest
from bookext.moving_twins.collectives import collective

from rankbook.comm.counts import Message
from rankbook.parallel.mesh import Layout
from rankbook.predict.cost_model.layouts import (
    StepCosts,
    call_seconds,
    fit_message,
    fit_passes,
    message_steps,
    predict_step,
)

LINES = {"all_reduce": (1e-3, 1e-9), "all_gather": (2e-3, 2e-9), "send": (5e-4, 1e-9)}
COSTS = StepCosts(row=0.01, a_pass=0.0, tensor_pass=0.04, update=0.02, cores=8, lines=LINES)


def step(words: str, shard: str = "none", microbatches: int = 1, calls=(), **changes):
    mesh = Layout.parse(words, shard)
    return predict_step(mesh, 16, microbatches, calls, replace(COSTS, **changes))


def test_one_process_has_all_the_work():
    found = step("dp=1")
    assert (found.work, found.update, found.messages) == (0.16, 0.02, 0)
    assert found.total == 0.18
    assert step("dp=1", a_pass=0.03).work == pytest.approx(0.19)


def test_ranks_share_the_rows_and_cores_are_shared():
    assert step("dp=4").work == pytest.approx(0.04)
    assert step("dp=4", cores=2).work == pytest.approx(0.08)
    # what a pass costs whatever its rows, each replica pays
    assert step("dp=4", a_pass=0.01, cores=2).work == pytest.approx(0.08 + 2 * 0.01)


def test_the_update_is_shared_by_those_who_share_the_states():
    assert step("dp=4").update == pytest.approx(0.02)
    assert step("dp=4", "fsdp").update == pytest.approx(0.005)
    assert step("dp=4", "2").update == pytest.approx(0.01)
    assert step("tp=4").update == pytest.approx(0.005)


def test_stages_wait_for_each_other_unless_others_need_the_cores():
    """GPipe and 1F1B idle (p - 1) / (m + p - 1)."""
    assert step("pp=4", microbatches=4).work == pytest.approx(0.04 * 7 / 4)
    assert step("pp=4", microbatches=4, cores=2).work == pytest.approx(0.08)
    assert step("pp=4", microbatches=4, cores=3).work == pytest.approx(0.07)


def test_cut_layers_pay_for_dtensors():
    assert step("tp=2").work == pytest.approx(0.08 + 0.04)
    assert step("tp=2", cores=1).work == pytest.approx(0.16 + 2 * 0.04)


def test_messages_follow_each_other():
    calls = [
        Message("dp", "all_reduce", 4, 1000, 1500.0),
        Message("pp", "send", 2, 8000, 8000.0),
        Message("pp", "recv", 2, 0, 0.0),
    ]
    assert [call_seconds(call, COSTS) for call in calls] == [
        pytest.approx(6e-3 + 1.5e-6), pytest.approx(5e-4 + 8e-6), 0.0,
    ]  # fmt: skip
    found = step("dp=4", calls=calls)
    assert found.messages == pytest.approx(6.5e-3 + 9.5e-6)
    assert found.total == pytest.approx(found.work + found.update + found.messages)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_steps_are_those_of_a_ring(n):
    for operation, way in (("all_reduce", "ring"), ("all_gather",) * 2, ("reduce_scatter",) * 2):
        assert message_steps(operation, n) == len(collective(way, n).steps)
    with pytest.raises(ValueError, match="message_steps: 'gossip' is unknown; use one of all_red"):
        message_steps("gossip", n)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_message_from_the_line_of_its_collective(operation):
    """And back: the collective's line is what the ring's steps give."""
    n, alpha, beta = 4, 3e-4, 2e-9
    ring = collective({"all_reduce": "ring"}.get(operation, operation), n)
    done = len(ring.steps)
    whole = [ring.seconds(done, size, alpha, beta) for size in (0, 1000)]
    line = whole[0], (whole[1] - whole[0]) / 1000
    assert fit_message(operation, n, *line) == pytest.approx((alpha, beta))


def test_a_pass_and_a_row_from_two_times():
    assert fit_passes((2, 0.05), (16, 0.19)) == pytest.approx((0.03, 0.01))
    assert fit_passes((2, 0.05), (16, 0.04)) == (0.05, 0.0)  # noise
    assert fit_passes((2, 0.01), (16, 0.16))[0] == 0.0


@pytest.mark.parametrize("mesh", ["cp=2", "dp=2,ep=2"])
def test_what_was_never_measured_is_not_foretold(mesh):
    with pytest.raises(ValueError, match=r"pp, dp and tp can be predicted; [ce]p=2 has"):
        step(mesh)
