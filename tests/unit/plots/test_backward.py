"""Backward passes as a profiler saw them."""

import pytest

from plots import backward_traces
from rankbook.speed.strategies.backward_trace import BackwardTrace, Span

OPERATIONS = [Span("AddmmBackward0", 0.0, 0.01), Span("EmbeddingBackward0", 0.01, 0.02)]


@pytest.mark.given("early: 50% hidden", "late: 0% hidden")
def test_titles_have_the_hidden_share_and_bars_are_numbered():
    early = BackwardTrace(OPERATIONS, [Span("gloo:all_reduce", 0.01, 0.02),
                                       Span("gloo:all_reduce", 0.02, 0.03)])  # fmt: skip
    late = BackwardTrace(OPERATIONS, [Span("gloo:all_reduce", 0.02, 0.03)])
    figure = backward_traces({"early": early, "late": late})
    first, second = figure.axes
    assert first.get_title(loc="left") == "early: 50% hidden"
    assert second.get_title(loc="left") == "late: 0% hidden"
    assert [text.get_text() for text in first.texts] == ["0", "1"]
