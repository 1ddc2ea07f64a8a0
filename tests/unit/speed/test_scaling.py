"""The parts of a step of DDP, the two efficiencies, and a trace's arithmetic."""

import json

import pytest
import torch

from rankbook.speed.strategies.backward_trace import BackwardTrace, Span, trace_backward
from rankbook.speed.strategies.scaling import Parts, efficiency, weak_efficiency


def test_a_step_is_the_sum_of_its_parts_but_for_what_is_hidden():
    assert Parts(0.5, 0.25).step == 0.75
    assert Parts(0.5, 0.25, 0.5).step == 1.25
    assert Parts(0.5, 0.25, 0.5, hidden=0.5).step == 1.0


@pytest.mark.parametrize("wrong", [{"share": -1.0}, {"hidden": 1.5}])
def test_parts_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="0"):
        Parts(**{"share": 1.0, "optimizer": 1.0} | wrong)


def test_perfect_scaling_is_1_in_both_ways():
    assert efficiency(4.0, 1.0, ranks=4) == 1  # strong: a quarter of the time
    assert weak_efficiency(4.0, 4.0) == 1  # weak: the same time, four times the samples


def test_what_a_fixed_part_costs():
    """A tenth that is not divided: strong scaling loses by it, weak scaling does not."""
    one, strong, weak = Parts(0.9, 0.1), Parts(0.9 / 4, 0.1), Parts(0.9, 0.1)
    assert efficiency(one.step, strong.step, 4) == pytest.approx(1 / 1.3)
    assert weak_efficiency(one.step, weak.step) == 1


def trace(*sent: tuple[float, float]) -> BackwardTrace:
    return BackwardTrace([Span("Mm", 0.0, 3.0), Span("Mm", 3.0, 4.0)],
                         [Span("gloo:all_reduce", *each) for each in sent])  # fmt: skip


def test_the_hidden_share():
    assert trace((4.5, 6)).hidden == 0
    assert trace((1, 2), (5, 6)).hidden == 0.5
    assert trace((1, 3), (2, 6)).hidden == 0.6  # together from 1 to 6; until 4 under operations
    assert trace().hidden == 0 and trace().computed == 4


def test_a_backward_pass_is_traced():
    x = torch.randn(4, 4, requires_grad=True)
    loss = (x @ x).relu().sum()
    found = trace_backward(loss.backward)
    names = [span.name for span in found.operations]
    assert names == ["SumBackward0", "ReluBackward0", "MmBackward0"] and not found.sent
    assert found.operations[0].start == 0 and x.grad is not None


def test_a_trace_goes_through_a_file():
    found = trace((1, 2), (5, 6))
    assert BackwardTrace.of(json.loads(json.dumps(found.as_dict()))) == found


def test_nothing_to_trace():
    with pytest.raises(ValueError, match="hand over a backward pass"):
        trace_backward(lambda: None)
