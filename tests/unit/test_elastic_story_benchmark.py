"""The story that page 41 opens with: what is kept of its events still draws the same picture."""

import json

from benchmarks.elastic_story import KEPT, Story, slim
from benchmarks.record import RESULTS
from plots.events import elastic_gaps, elastic_worlds

STORY = json.loads((RESULTS / "elastic_story-cpu-2.json").read_text("utf-8"))


def full() -> list[dict]:
    """Two worlds of two ranks; the second does one step again."""
    return [
        {"time": 10.0 + 5 * attempt + step, "event": "step", "node": "a", "rank": rank, "step": s,
         "world_size": 2, "pid": 10 * attempt + rank, "attempt": str(attempt), "loss": 1 / s,
         "samples": [1]}
        for attempt, steps in enumerate(((1, 2, 3), (3, 4, 5)))
        for step, s in enumerate(steps)
        for rank in (0, 1)
    ]  # fmt: skip


def test_slim_events_have_the_same_worlds_and_gaps():
    kept = slim(full())
    assert len(kept) == 6 + 4 and all(event.keys() <= set(KEPT) for event in kept)
    assert [w.size for w in elastic_worlds(kept)] == [2, 2]
    (gap,) = elastic_gaps(kept)
    assert (gap.seconds, gap.redone) == (3.0, 1)


def test_the_record_is_the_uninterrupted_run():
    control = dict(enumerate(STORY["control"], 1))
    steps = [event for event in STORY["events"] if event["event"] == "step"]
    assert {event["step"] for event in steps} == control.keys()
    assert all(abs(event["loss"] - control[event["step"]]) < 1e-5 for event in steps)
    assert {event["world_size"] for event in steps} == {2, 4, 6}
    assert len(STORY["faults"]) == len(STORY["rows"]) == 7


def test_steps_count_since_the_last_fault_in_the_latest_world(tmp_path):
    story = Story(tmp_path)
    assert story.steps_of(2) == 0
    (tmp_path / "story.jsonl").write_text("".join(json.dumps(e) + "\n" for e in full()))
    assert (story.steps_of(2), story.steps_of(4)) == (3, 0)
    story.faults.append((15.5, "a", "something"))
    assert story.steps_of(2) == 2
    story.torchrun.close()
