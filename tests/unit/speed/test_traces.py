"""Traces: what ran, what did not, and whose time an operation that calls others is."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.profiler import record_function

from rankbook.speed.traces import Span, Trace, kernel_kind, trace, working


def test_gaps_are_what_no_span_covers():
    spans = (Span("mm", "matmul", 1.0, 3.0), Span("add", "other", 2.0, 2.5),
             Span("mm", "matmul", 4.0, 8.0))  # fmt: skip
    found = Trace(spans, (), 10.0)
    assert found.gaps == ((0.0, 1.0), (3.0, 4.0), (8.0, 10.0))
    assert found.gap_share == pytest.approx(0.4)
    assert found.by_kind() == {"matmul": 6.0, "other": 0.5}
    assert Trace((Span("mm", "matmul", 0.0, 1.0),), (), 1.0).gaps == ()


def event(name, start, end, *children):
    time = SimpleNamespace(start=start, end=end)
    return SimpleNamespace(name=name, time_range=time, cpu_children=children)


def test_who_works_is_who_spends_the_time():
    copy = event("aten::copy_", 1, 2)
    scaled = event("aten::mul", 0, 10, event("aten::empty", 0, 1), copy)
    assert working(scaled) == [scaled]
    product = event("aten::mm", 2, 10)
    linear = event("aten::linear", 0, 10, event("aten::t", 0, 1), product)
    assert working(event("autograd::engine", 0, 11, linear)) == [product]
    assert working(event("aten::view", 0, 1)) == []


def test_a_step_has_its_operations_and_named_parts():
    model = nn.Linear(64, 64)
    adam = torch.optim.Adam(model.parameters())

    def step():
        adam.zero_grad()
        with record_function("forward"):
            loss = model(torch.ones(8, 64)).square().sum()
        loss.backward()
        adam.step()

    found = trace(step)
    assert {"matmul", "Adam"} <= set(found.by_kind())
    names = [mark.name for mark in found.marks]
    assert "forward" in names and "Optimizer.step#Adam.step" in names
    assert all(0 <= span.start <= span.end <= found.seconds for span in found.spans)
    assert 0 < found.gap_share < 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", "matmul"),
        ("nvjet_tst_128x256_64x4", "matmul"),
        ("pytorch_flash::flash_fwd_kernel", "attention kernel"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward", "softmax"),
        ("void at::native::vectorized_layer_norm_kernel", "layer norm"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "Adam"),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
        ("void at::native::vectorized_elementwise_kernel<AddFunctor>", "other"),
    ],
)
def test_kernels_have_kinds_by_their_names(name, kind):
    assert kernel_kind(name) == kind
