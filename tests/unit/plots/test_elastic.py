"""The timeline of an elastic job, and its faults: what is drawn is what the events say."""

import pytest

from plots.elastic import elastic_timeline
from plots.events import ENDED, STARTED, elastic_gaps, elastic_table, elastic_worlds
from plots.soaking import soak


def attempt(name: str, nodes: dict[str, int], start: float, steps: range) -> list[dict]:
    """Events of ranks on `nodes` (ranks each): a start, then a step a second."""
    names = [node for node, count in nodes.items() for _ in range(count)]
    events = []
    for rank, node in enumerate(names):
        who = {"node": node, "rank": rank, "world_size": len(names), "attempt": name,
               "pid": 100 * ord(name) + rank}  # fmt: skip
        events.append(who | {"time": start, "event": "start", "step": steps.start - 1})
        events += [
            who | {"time": start + 1 + n, "event": "step", "step": step, "loss": 1 / step}
            for n, step in enumerate(steps)
        ]
    return events


# a alone does steps 1 to 3; with b 4 to 6; b is killed, and 5 to 8 are done by a alone
RECORD = [
    *attempt("A", {"a": 1}, 10.0, range(1, 4)),  # the steps end at 11, 12, 13
    *attempt("B", {"a": 1, "b": 2}, 15.0, range(4, 7)),  # 16, 17, 18
    *attempt("C", {"a": 1}, 25.0, range(5, 9)),  # 26 to 29
]


FAULTS = [(12.5, "b", "joins"), (18.25, "b", "killed"), (19.0, "b", "mourned"), (40.0, "a", "late")]


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_worlds_and_gaps():
    assert [world.size for world in elastic_worlds(reversed(RECORD))] == [1, 3, 1]
    first, second = elastic_gaps(RECORD)
    assert (first.before, first.after, first.redone, first.seconds) == (1, 3, 0, 3.0)
    assert (second.before, second.after, second.redone, second.seconds) == (3, 1, 2, 8.0)


def test_the_table_counts_a_gap_once():
    join, kill, again, late = elastic_table(RECORD, reversed(FAULTS)).rows
    assert join == ["1", "b: joins", "1 to 3", "3.5", "3.0", "0"]
    assert kill == ["2", "b: killed", "3 to 1", "7.8", "8.0", "2"]
    assert again == ["3", "b: mourned", "", "7.0", "", ""]
    assert late == ["4", "a: late", "", "", "", ""]


def test_a_fault_that_ended_the_job_has_not_the_new_starts_numbers():
    faults = [FAULTS[0], (18.25, "a", "agent killed"), (23.0, "a", STARTED)]
    _, killed, started = elastic_table(RECORD, faults).rows
    assert killed == ["2", "a: agent killed", ENDED, "", "", ""]
    assert started == ["3", "a: started again", "3 to 1", "3.0", "8.0", "2"]


def test_the_timeline_shows_lives_steps_losses_and_faults():
    figure = elastic_timeline(RECORD, FAULTS[:2])
    lives, steps, losses, below = figure.axes
    bars = [(bar.get_x(), bar.get_width()) for bar in lives.patches if bar.get_height() < 1]
    assert sorted(bars) == [(0.0, 3.0), *[(5.0, 3.0)] * 3, (15.0, 4.0)]
    assert [label.get_text() for label in lives.get_yticklabels()] == ["a", "b"]
    assert words(lives) == ["1", "2"] and words(steps) == ["3.0", "8.0"]
    assert words(below) == ["1  b: joins\n2  b: killed"]
    drawn = [list(line.get_ydata()) for line in steps.lines if line.get_marker() == "o"]
    assert drawn == [[1, 2, 3], [4, 5, 6], [5, 6, 7, 8]]
    first = next(line for line in losses.lines if line.get_marker() == "o")
    assert list(first.get_ydata()) == [1, 1 / 2, 1 / 3]


def test_with_a_control_losses_stand_on_its_line_and_what_was_done_again_is_ringed():
    *_, losses, _ = elastic_timeline(RECORD, FAULTS[:2], {n: 1 / n for n in range(1, 9)}).axes
    control, *worlds = losses.lines
    assert list(control.get_xdata()) == list(range(1, 9))
    points = [(line.get_markerfacecolor() == "none", list(line.get_xdata())) for line in worlds]
    assert points == [(False, [1, 2, 3]), (False, [4, 5, 6]), (False, [5, 6, 7, 8]), (True, [5, 6])]
    assert all(y == 1 / x for line in worlds for x, y in line.get_xydata())


def test_workers_of_one_node_share_its_row():
    lives, *_ = elastic_timeline(RECORD).axes
    ends = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in lives.patches
            if bar.get_x() == 5.0 and bar.get_y() > 0.5]  # fmt: skip
    assert len(ends) == 2 and ends[0][1] == pytest.approx(ends[1][0])


def test_events_without_a_step():
    with pytest.raises(ValueError, match="no rank 0 finished a step"):
        elastic_worlds(RECORD[:1])


ROWS = [
    {"processes": "warm", "fault": "worker_killed", "count": 20, "median": 2, "p10": 1, "p90": 4},
    {"processes": "warm", "fault": "node_joins", "count": 9, "median": 3, "p10": 2, "p90": 5},
    {"processes": "cold", "fault": "worker_killed", "count": 7, "median": 8, "p10": 6, "p90": 9},
]


def test_a_soak_has_a_line_a_fault_from_p10_to_p90():
    (axes,) = soak({"rows": ROWS}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "20 × worker killed", "9 × node joins"]  # fmt: skip
    spans = [tuple(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert spans == [(1, 4), (2, 5), (6, 9)]
    medians = [line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) == 1]
    assert medians == [2, 3, 8]
