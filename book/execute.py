"""Execute chapters: some at a time where the memory suffices, each watched and kept.

What the kernels and their ranks write besides their cells' outputs goes to ``_build/logs``: a
chapter that shows how a process dies is no failing build.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import nbformat
import psutil
from build_record import page_bytes
from executed import expected_seconds, keep, keep_stopped
from execution.client import Client
from execution.outcome import Failure, Outcome
from execution.turns import times_something
from fingerprint import OUT

AT_A_TIME = 3  # on the two cores that are the least: a page waits half of its time
LOGS = OUT / "logs"
PROFILE = OUT / "profile"  # what each chapter took when it was last executed


class Done(NamedTuple):
    """A chapter that has come to its end, or to a cell that failed. again: it was tried twice."""

    chapter: Path
    outcome: Outcome
    log: Path
    again: bool = False


class Room:
    """Lets a chapter begin when there is memory for it; one alone may always."""

    def __init__(self):
        self._running = 0
        self._left = threading.Condition()

    def enter(self, chapter: Path) -> None:
        """Wait until there is room for the chapter."""
        with self._left:
            while self._running and free_bytes() < page_bytes(chapter.stem):
                self._left.wait(1.0)
            self._running += 1

    def leave(self) -> None:
        """A chapter has come to its end."""
        with self._left:
            self._running -= 1
            self._left.notify_all()


def execute(wanted: Iterable[tuple[Path, str]]) -> Iterator[Done]:
    """Execute and keep the chapters; yield each as it ends. One that fails stops no other.

    wanted: notebooks, each with its execution key. One of which a process died is tried once more,
    alone.
    """
    order = sorted(wanted, key=place)
    room, died = Room(), []
    with Client(os.environ, len(order)) as client:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            running = {pool.submit(execute_one, client, room, *one): one for one in order}
            try:
                for future in as_completed(running):
                    done = future.result()
                    if done.outcome.failure and done.outcome.failure.kind == "died":
                        died.append(running[future])
                    else:
                        yield done
            except BaseException:  # interrupted: nothing else begins, and what runs is ended
                pool.shutdown(wait=False, cancel_futures=True)
                client.close()
                raise
        for one in died:
            yield execute_one(client, room, *one)._replace(again=True)


def place(one: tuple[Path, str]) -> tuple[bool, float]:
    """Where a chapter stands in the order.

    What has cells that run alone comes last: all wait for such a cell, and it waits for the cells
    of the others, of which those on a cluster take a minute. Then the longest first, so that none
    is left over at the end with one core idle.
    """
    chapter = one[0]
    return times_something(chapter), -expected_seconds(chapter)


def execute_one(client: Client, room: Room, chapter: Path, key: str) -> Done:
    """Execute and keep one chapter, or what there is of it."""
    log = LOGS / f"{chapter.parent.name}-{chapter.stem}.log"
    room.enter(chapter)
    try:
        outcome = client.execute(chapter, log)
    finally:
        room.leave()
    executed = Path(outcome.executed)
    notebook = nbformat.read(executed, as_version=nbformat.NO_CONVERT)
    executed.unlink()
    if outcome.failure:
        keep_stopped(chapter, key, notebook, outcome)
    elif keep(chapter, key, notebook, outcome.seconds):
        PROFILE.mkdir(parents=True, exist_ok=True)
        (PROFILE / f"{chapter.stem}.json").write_text(json.dumps(outcome.as_dict()))
    else:
        reason = "what it depends on changed while it ran; build again"
        outcome.failure = Failure("changed", "", reason)
        keep_stopped(chapter, key, notebook, outcome)
    return Done(chapter, outcome, log)


def free_bytes() -> int:
    """The memory that is free for programs now."""
    return psutil.virtual_memory().available
