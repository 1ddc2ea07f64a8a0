"""What a report says, in how many lines, and what survives pickling."""

import pickle

import pytest

from rankbook.prove import Difference, Report

COUNTS = {"steps": 1, "loss": 1, "gradient": 52, "norm": 1, "clipped": 52, "after": 52}


def report(*differences, counts=COUNTS, notes=(), largest=3e-7):
    return Report(tuple(differences), counts, largest, 1e-5, notes)


def test_right_in_one_line():
    said = "right: loss, 52 gradients, norm, 52 parameters after a step; largest difference 3e-07"
    assert str(report()) == repr(report()) == said
    assert report().right and report().first is None
    report().raise_if_wrong()


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"gradient": 1}, "right: 1 gradient; identical"),
        ({"loss": 1, "norm": 1, "clipped": 2}, "right: loss, norm, 2 clipped gradients; identical"),
        (
            {"steps": 3, "gradient": 2, "after": 2, "buffer": 1},
            "right: 2 gradients, 2 parameters after 3 steps, 1 buffer; identical",
        ),
    ],
)
def test_only_what_was_compared_is_claimed(counts, said):
    assert str(report(counts=counts, largest=0.0)) == said


def test_wrong_begins_with_the_first():
    one = Difference("gradient", "up.weight", "gradient off by 48 %", 0.48)
    assert str(report(one)) == "WRONG: up.weight: gradient off by 48 %"
    assert not report(one).right and report(one).first is one
    with pytest.raises(AssertionError, match=r"^WRONG: up\.weight: gradient off by 48 %$"):
        report(one).raise_if_wrong()


def test_wrong_counts_what_else_differs():
    loss = Difference("loss", "", "loss 1, and the twin's is 2: 0.500 times", 0.5, 0.5)
    many = [Difference("gradient", f"layers.{i}", "gradient is zero", 1.0) for i in range(6)]
    norm = Difference("norm", "", "norm 1, and the twin's is 3", 0.6)
    lines = str(report(loss, *many, norm, notes=("so it is",))).splitlines()
    assert lines == [
        "WRONG: loss 1, and the twin's is 2: 0.500 times",
        "  6 of 52 gradients are wrong: layers.0, layers.1, layers.2, layers.3, …",
        "  norm 1, and the twin's is 3",
        "  note: so it is",
    ]


def test_a_later_step_is_said():
    late = Difference("after", "up", "did not change in the step", 1.0, step=2)
    assert str(late) == "step 2: up: did not change in the step"


def test_it_travels():
    one = report(Difference("gradient", "up", "no gradient", 1.0, None, (1,)))
    assert pickle.loads(pickle.dumps(one)) == one
