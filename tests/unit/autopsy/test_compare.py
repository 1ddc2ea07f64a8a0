"""The first call of a group that is missing on a rank, or differs."""

from rankbook.autopsy.compare import partings
from rankbook.autopsy.flight import Entry
from tests.unit.autopsy.made import call


def held(*calls: dict) -> list[Entry]:
    return [Entry.of(each) for each in calls]


def test_none_where_all_went_the_same_way():
    assert partings({0: held(call(1), call(2)), 1: held(call(1), call(2))}) == []


def test_who_is_missing():
    [parting] = partings({0: held(call(1), call(2)), 1: held(call(1)), 2: []})
    assert (parting.number, parting.missing, parting.differs) == (1, (2,), "")


def test_what_differs():
    for other, differs in (
        (call(1, op="broadcast"), "order"),
        (call(1, shape="float32 [5]"), "shape"),
        (call(1, shape="float64 [4]"), "type"),
    ):
        [parting] = partings({0: held(call(1)), 1: held(other)})
        assert (parting.differs, parting.missing) == (differs, ())


def test_parts_of_an_uneven_gather_may_differ_in_shape():
    parts = [held(call(1, op="gather", shape=f"float32 [{n}]")) for n in (3, 4)]
    assert partings(dict(enumerate(parts))) == []


def test_the_members_of_a_group_are_those_that_are_told():
    sub = call(1, group="7")
    assert partings({0: held(sub), 1: held(sub), 2: []}) == []
    [parting] = partings({0: held(sub), 1: held(sub), 2: []}, {"7": [0, 1, 2]})
    assert parting.missing == (2,)


def test_what_has_fallen_out_of_a_recorder_is_not_missing():
    assert partings({0: held(call(3)), 1: held(call(1), call(2), call(3))}) == []
