"""A rank that waits long for the others says so while it does, and one that has not come, too.

A thread looks at the main one; where that stands in the same place for long, it asks the flight
recorder. Ranks tell each other through the store of the default group.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from rankbook.autopsy import flight, stacks

VARIABLE = "RANKBOOK_HINT_SECONDS"  # 0 for no hints
SECONDS = 10.0
IDLE = 0.05  # seconds of work since it came there, of a thread that waits for another rank
KEY = "rankbook/waits"  # in the store: how many waits were told; each under its number


@contextmanager
def hints(who: str, say: Callable[[str], object] | None = None) -> Iterator["Watch"]:
    """Tell long waits while what is inside runs; `$RANKBOOK_HINT_SECONDS` says what is long.

    who: begins each line. say: called with it; by default it goes to standard error.
    """
    try:
        seconds = float(os.environ.get(VARIABLE) or SECONDS)
    except ValueError:
        seconds = SECONDS
    watch = Watch(who, seconds, say or _print)
    if seconds > 0:
        threading.Thread(target=watch.run, name="rankbook hints", daemon=True).start()
    try:
        yield watch
    finally:
        watch.stop.set()


class Watch:
    """Looks at the thread that made it. seconds: how long a wait is told of."""

    def __init__(self, who: str, seconds: float, say: Callable[[str], object]):
        self.who, self.seconds, self.say = who, seconds, say
        self.stop = threading.Event()
        self._thread = threading.current_thread()
        self._mark: Any = None  # where it stood, since when, and what it had worked by then
        self._since, self._worked = 0.0, 0.0
        self._told: set[tuple] = set()
        self._heard = 0

    def run(self) -> None:
        """Look until it is stopped, or until there is a group no more."""
        while not self.stop.wait(self.seconds / 5):
            if (dist := _group()) is not None:
                try:
                    self.look(dist)
                except Exception:  # the store or the group is gone: never the program's trouble
                    return

    def look(self, dist: Any) -> None:
        """Say it if this rank stands still, and if another waits for it."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        self._listen(dist, frame)
        mark, now = _mark(frame), time.monotonic()
        if mark != self._mark:
            self._mark, self._since, self._worked = mark, now, _worked(self._thread)
        elif now - self._since >= self.seconds:
            self._since = now
            self._tell(dist, frame)

    def _tell(self, dist: Any, frame: FrameType | None) -> None:
        lines = stacks.stack(frame)
        entry = next((e for e in flight.recent_collectives() if not e.done), None)
        if entry is not None and time.time() - entry.time >= self.seconds / 2:
            call, key = entry.text, (entry.group, entry.number)
            _publish(dist, {"group": entry.group, "number": entry.number, "call": call})
        elif (call := stacks.call(lines)) and _worked(self._thread) - self._worked < IDLE:
            key = (call, _place(lines))  # of what the recorder does not know: send, recv, a group
        else:
            return
        if key not in self._told:
            self._told.add(key)
            rank = dist.get_rank()
            said = (
                f"rank {rank} has waited {self.seconds:g} s for others in {call}, {_place(lines)}"
            )
            self.say(f"{self.who}: {said}")

    def _listen(self, dist: Any, frame: FrameType | None) -> None:
        store = dist.distributed_c10d._get_default_store()
        for number in range(self._heard + 1, store.add(KEY, 0) + 1):
            if not store.check([f"{KEY}/{number}"]):
                return
            self._heard = number
            wait = json.loads(store.get(f"{KEY}/{number}"))
            mine = [e.number for e in flight.recent_collectives() if e.group == wait["group"]]
            if not mine and wait["group"] != "0":
                continue  # of a group that this rank may not be in
            key = ("absent", wait["group"], wait["number"])
            if max(mine, default=0) < wait["number"] and key not in self._told:
                self._told.add(key)
                said = f"rank {dist.get_rank()} has not come to {wait['call']}, in which rank "
                said += f"{wait['rank']} waits: it is at {_place(stacks.stack(frame))}"
                self.say(f"{self.who}: {said}")


def _publish(dist: Any, wait: dict[str, Any]) -> None:
    """Let the others know that this rank waits; the number is there before what it stands for."""
    store = dist.distributed_c10d._get_default_store()
    number = store.add(KEY, 1)
    store.set(f"{KEY}/{number}", json.dumps(wait | {"rank": dist.get_rank()}))


def _group() -> Any:
    """torch.distributed, where there is a group of several ranks; else None."""
    dist = sys.modules.get("torch.distributed")
    with suppress(Exception):  # it may be being made, or left
        if dist is not None and dist.is_initialized() and dist.get_world_size() > 1:
            return dist
    return None


def _mark(frame: FrameType | None) -> tuple:
    """Where a thread stands: the same if it is there again."""
    found = []
    while frame is not None:
        found.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def _worked(thread: threading.Thread) -> float:
    """Seconds of a processor that a thread has used; 0 where the system does not say."""
    if not hasattr(time, "pthread_getcpuclockid") or thread.ident is None:
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def _place(lines: list[stacks.Line]) -> str:
    """``run.py:52 in train``."""
    line = stacks.last_line(lines)
    return line.place if line else "a line that is not known"


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
