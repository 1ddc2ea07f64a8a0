"""The lives of an elastic job's workers: those that were killed did not say so."""

import json
from pathlib import Path

from plots.events import Life, elastic_lives

STORY = Path(__file__).resolve().parents[3] / "book" / "results" / "elastic_story-cpu-2.json"


def event(time: float, what: str, rank: int) -> dict:
    return {"time": time, "event": what, "node": "a", "rank": rank, "attempt": "A", "pid": rank}


def test_who_said_goodbye_and_who_did_not():
    events = [event(1.0, "start", 0), event(1.5, "start", 1), event(2.0, "step", 0)]
    events += [event(3.0, "leave", 0)]
    left, killed = elastic_lives(events, [(9.0, "a", "late"), (2.5, "a", "killed")])
    assert left == Life("a", 0, 1.0, 3.0, killed=False)
    assert killed == Life("a", 1, 1.5, 2.5, killed=True)


def test_a_fault_may_be_noted_before_the_last_step():
    """What we do to a job is noted first; the worker may do one more step before it is struck."""
    events = [event(1.0, "start", 0), event(2.0, "step", 0)]
    (life,) = elastic_lives(events, [(1.9, "a", "killed"), (8.0, "a", "started again")])
    assert life == Life("a", 0, 1.0, 2.0, killed=True)


def test_nobody_knows_who_killed_it():
    (life,) = elastic_lives([event(1.0, "start", 0), event(2.0, "step", 0)])
    assert life == Life("a", 0, 1.0, 2.0, killed=True)


def test_the_recorded_story():
    story = json.loads(STORY.read_text("utf-8"))
    lives = elastic_lives(story["events"], story["faults"])
    assert len(lives) == 24
    times = [time for time, _, _ in story["faults"]]
    killed = sorted((life.node, life.rank, times.index(life.end)) for life in lives if life.killed)
    # one worker of b; those of c with their node; those of a with their agent
    assert killed == [("a", 0, 5), ("a", 1, 5), ("b", 2, 1), ("c", 4, 4), ("c", 5, 4)]
