"""The benchmark of one controller: its command line, its rows, and life without Monarch."""

import pytest

from benchmarks import one_controller


def test_it_says_in_one_sentence_that_monarch_cannot_be_had(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no matching distribution")

    monkeypatch.setattr(one_controller, "install", refuse)
    with pytest.raises(SystemExit, match="Monarch is not here and cannot be installed") as end:
        one_controller.monarch(None)
    assert "\n" not in str(end.value)


def test_a_python_without_monarch_is_refused_too(tmp_path):
    with pytest.raises(SystemExit, match="Monarch is not here"):
        one_controller.monarch(str(tmp_path / "python"))


def test_a_row_is_what_was_seen_most_often():
    case = {"fault": "raises", "way": "first", "said": ["x"], "printed": [], "next": False}
    cases = [case | {"seen": seen, "seconds": s} for seen, s in [("nothing", 9), ("first", 1)]]
    cases.append(case | {"seen": "first", "seconds": 2, "repair": "a new group", "repaired": 0.5})
    row = one_controller.table_row(cases)
    assert (row["seen"], row["agree"], row["next"]) == ("first", "2 of 3", "0 of 3")
    assert (row["median"], row["unit"], row["repair, s"]) == (2, "s", 0.5)
