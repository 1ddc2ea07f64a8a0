"""The recorded run of page 41: its worlds, the time between them, lives, faults and losses."""

import json
from dataclasses import asdict
from pathlib import Path

from plots.events import elastic_gaps, elastic_lives, elastic_worlds

RECORD = Path(__file__).resolve().parents[3] / "results" / "elastic_story-cpu-2.json"


def data() -> dict:
    """What the figure plays, as the plots' functions read it from the record."""
    record = json.loads(RECORD.read_text("utf-8"))
    events, faults = record["events"], record["faults"]
    return {
        "worlds": [asdict(world) for world in elastic_worlds(events)],
        "gaps": [asdict(gap) | {"seconds": gap.seconds} for gap in elastic_gaps(events)],
        "lives": [asdict(life) for life in elastic_lives(events, faults)],
        "agents": _agents(faults, events[-1]["time"]),
        "faults": [{"time": time, "node": node, "what": what} for time, node, what in faults],
        "control": record["control"],
        "end": events[-1]["time"],
    }


def _agents(faults: list, end: float) -> list[dict]:
    """The lives of the agents, which write no events: what we did to them tells.

    The last agent of b ends by itself, as it finds no store; a second before a is started again,
    nothing ran any more (see benchmarks/elastic_story.py).
    """
    join_b, _, leave_b, join_c, kill_c, kill_a, again = (time for time, _, _ in faults)
    lives = [
        ("a", 0.0, kill_a, True),
        ("b", join_b, leave_b, False),
        ("b", join_c, again - 1.0, False),
        ("c", join_c, kill_c, True),
        ("a", again, end, False),
    ]
    return [dict(zip(("node", "start", "end", "killed"), life, strict=True)) for life in lives]
