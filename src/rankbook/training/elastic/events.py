"""What happened, one line of JSON an event, in one file for all ranks; and what of it counts."""

import json
import os
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from rankbook.data.sample_audit import SampleAudit, audit_samples

NODE = "RANKBOOK_NODE"  # a name for this node in the events; else it is the agent's number


class Events:
    """Appends events to the file at `path`; without one, nowhere.

    A line is written at once, behind all others, and is in the file when `write` returns: several
    processes may share the file, and one that is killed loses no event that it has written.
    Raises OSError where the file cannot be opened.
    """

    def __init__(self, path: Path | None, **constant):
        self.file = None
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.constant = _who() | constant

    def write(self, event: str, **fields) -> None:
        """Append `event` with its `fields`, the time (seconds since 1970) and who says it."""
        if self.file is None:
            return
        line = {"time": time.time(), "event": event} | self.constant | fields
        os.write(self.file, json.dumps(line, default=str).encode() + b"\n")


def _who() -> dict:
    """This rank, as torchrun describes it."""
    get = os.environ.get
    return {
        "node": get(NODE, get("GROUP_RANK", "0")),
        "rank": int(get("RANK", "0")),
        "world_size": int(get("WORLD_SIZE", "1")),
        "pid": os.getpid(),
        "restart": int(get("TORCHELASTIC_RESTART_COUNT", "0")),
    }


def read_events(path: Path) -> list[dict]:
    """All events of the file at `path`, by time.

    A line that is torn, as a full disk may leave one, is passed over.
    """
    events = []
    for line in Path(path).read_bytes().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return sorted(events, key=lambda event: event["time"])


def lineage(events: list[dict]) -> dict[int, list[dict]]:
    """The steps that count: of each, the "step" events of its last execution, by rank.

    A step that was lost is done again after the restart, from the checkpoint before it: what was
    done first has left no trace in the parameters. Executions are told apart by `attempt`.
    """
    executions: dict[int, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for event in sorted(events, key=lambda event: event["time"]):
        if event["event"] == "step":
            executions[event["step"]][event["attempt"]].append(event)
    started = _starts(events)
    last = {
        step: attempts[max(attempts, key=lambda attempt: started[attempt])]
        for step, attempts in sorted(executions.items())
    }
    return {step: sorted(found, key=lambda event: event["rank"]) for step, found in last.items()}


def _starts(events: list[dict]) -> dict[str, float]:
    """When each attempt said something first: an attempt ends before the next begins."""
    started: dict[str, float] = {}
    for event in events:
        if "attempt" in event:
            name, when = event["attempt"], event["time"]
            started[name] = min(when, started.get(name, when))
    return started


def losses(events: list[dict]) -> dict[int, float]:
    """The loss of each step that counts."""
    return {step: found[0]["loss"] for step, found in lineage(events).items()}


def audit(events: list[dict], samples: int) -> dict[int, SampleAudit]:
    """How often each of `samples` was trained on in each epoch, in the steps that count.

    An epoch that is not over has samples that were never read. Raises ValueError where a rank's
    event of a step is missing, as nobody can say then what it read; and where two attempts trained
    at the same time, as each was a run of its own then. An attempt whose save was refused in favour
    of another one ("refused") may have: what it did beside that left no trace.
    """
    _one_after_another(events)
    epochs: dict[int, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for step, found in lineage(events).items():
        if [event["rank"] for event in found] != list(range(found[0]["world_size"])):
            ranks = [event["rank"] for event in found]
            raise ValueError(
                f"step {step} was said by ranks {ranks} of {found[0]['world_size']}: the last "
                "start that did it did not finish it on all ranks"
            )
        for event in found:
            epochs[event["epoch"]][f"rank {event['rank']}"] += event["samples"]
    return {epoch: audit_samples(by_rank, samples) for epoch, by_rank in sorted(epochs.items())}


def _one_after_another(events: list[dict]) -> None:
    """Raise ValueError where an attempt did a step when the next one had begun to do some."""
    refused = {event["attempt"] for event in events if event["event"] == "refused"}
    spans: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["event"] == "step" and event["attempt"] not in refused:
            spans[event["attempt"]].append(event["time"])
    in_order = sorted((min(times), max(times), name) for name, times in spans.items())
    for (_, end, one), (start, _, other) in pairwise(in_order):
        if end > start:
            raise ValueError(
                f"attempts {one} and {other} trained at the same time, for {end - start:.1f} s: "
                "their nodes lost sight of each other, and each went on alone"
            )
