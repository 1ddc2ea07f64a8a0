"""What came out of a trial, as a result file has it."""

from rankbook.parallel.trials.layout_trials import LayoutOutcome
from rankbook.parallel.trials.outcomes import RAISES
from rankbook.parallel.trials.wrapping_trials import WrappingOutcome

FOUND = {"verdict": RAISES, "errors": (0.123456,), "step": 2, "message": "RuntimeError: no, no"}


def test_a_row_begins_with_what_was_tried():
    wrapping = WrappingOutcome(schedule="zbv", wrapping="DDP", microbatches=4, **FOUND)
    row = wrapping.row(without="norms", width=100)
    assert list(row) == [
        *("schedule", "wrapping", "microbatches"),
        *("verdict", "errors", "missing", "step", "message"),
    ]
    assert row["errors"] == [0.123] and row["missing"] == 0
    layout = LayoutOutcome(layout="dp=8", way="DDP", **FOUND)
    row = layout.row(without="missing", width=20)
    assert list(row) == ["layout", "way", "verdict", "errors", "norms", "step", "message"]
    assert (row["norms"], row["message"]) == ([], "RuntimeError: no, no")
    assert layout.row(without="missing", width=19)["message"] == "RuntimeError: ..."
