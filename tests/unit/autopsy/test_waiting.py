"""When a rank is said to wait, and when not: where it stands, and what the recorder holds."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rankbook.autopsy import waiting
from rankbook.autopsy.flight import Entry

CALL = Entry("0", 3, "all_reduce", ("float32 [4]",), ("float32 [4]",), done=False, time=0.0)


class Store(dict):
    """As much of torch's store as is used."""

    def add(self, key, more):
        self[key] = self.get(key, 0) + more
        return self[key]

    def set(self, key, value):
        self[key] = value.encode()

    def check(self, keys):
        return all(key in self for key in keys)


class World:
    """Rank 0 of a group, with a clock of its own; what it says."""

    def __init__(self, monkeypatch):
        self.now, self.worked, self.held = 100.0, 0.0, []
        self.said: list[str] = []
        self.store = Store()
        self.dist = SimpleNamespace(
            get_rank=lambda: 0,
            distributed_c10d=SimpleNamespace(_get_default_store=lambda: self.store),
        )
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now)
        monkeypatch.setattr(waiting, "time", clock)
        monkeypatch.setattr(waiting, "_worked", lambda thread: self.worked)
        monkeypatch.setattr(waiting.flight, "recent_collectives", lambda: self.held)
        frame = sys._getframe()  # the thread stands here
        monkeypatch.setattr(
            waiting.sys, "_current_frames", lambda: {self.watch._thread.ident: frame}
        )
        self.watch = waiting.Watch("demo", 10.0, self.said.append)

    def look(self, *seconds: float) -> list[str]:
        for pause in seconds:
            self.now += pause
            self.watch.look(self.dist)
        return self.said


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_call_that_is_not_done_is_told_once(world):
    world.held = [replace(CALL, number=2, done=True), replace(CALL, time=100.0)]
    assert world.look(0, 9) == []
    (said,) = world.look(1, 10, 60)
    assert said.startswith("demo: rank 0 has waited 10 s for others in all_reduce(float32 [4]), ")
    told = json.loads(world.store[f"{waiting.KEY}/1"])
    assert told == {"group": "0", "number": 3, "call": "all_reduce(float32 [4])", "rank": 0}
    world.held.append(replace(CALL, number=4, time=world.now))
    world.held[1] = replace(CALL, done=True)
    assert len(world.look(10)) == 2  # another call, another wait


def test_what_is_done_or_has_just_begun_is_no_wait(world):
    world.held = [replace(CALL, done=True)]
    assert world.look(0, 10, 10) == []
    world.held.append(replace(CALL, time=world.now + 8))
    assert world.look(10) == []


def test_a_thread_that_goes_on_is_not_waiting(world, monkeypatch):
    world.held = [CALL]
    marks = iter(range(9))
    monkeypatch.setattr(waiting, "_mark", lambda frame: next(marks))
    assert world.look(0, 10, 10, 10) == []


@pytest.mark.parametrize(("works", "told"), [(0.0, 1), (0.2, 0)])
def test_of_what_the_recorder_does_not_know_idleness_tells(world, monkeypatch, works, told):
    monkeypatch.setattr(waiting.stacks, "call", lambda lines: "recv")
    world.look(0)
    world.worked = works
    assert len(world.look(10)) == told


def test_who_has_not_come_says_where_it_is(world):
    wait = {"group": "0", "number": 3, "call": "all_reduce(float32 [4])", "rank": 1}
    world.held = [replace(CALL, number=2, done=True)]
    world.store.add(waiting.KEY, 1)
    assert world.look(0) == []  # the number is there, and what it stands for not yet
    world.store.set(f"{waiting.KEY}/1", json.dumps(wait))
    (said,) = world.look(1, 1)
    assert said.startswith(
        "demo: rank 0 has not come to all_reduce(float32 [4]), in which rank 1 waits: it is at "
    )
    assert "test_waiting.py" in said


@pytest.mark.parametrize(("group", "number"), [("0", 2), ("7", 3)])
def test_who_has_come_or_is_not_in_the_group_says_nothing(world, group, number):
    world.held = [replace(CALL, number=2, done=True)]
    world.store.add(waiting.KEY, 1)
    wait = {"group": group, "number": number, "call": "barrier()", "rank": 1}
    world.store.set(f"{waiting.KEY}/1", json.dumps(wait))
    assert world.look(0, 10) == []


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), ("2.5", 2.5), ("soon", 10.0)])
def test_the_environment_says_what_is_long(monkeypatch, text, seconds):
    monkeypatch.setenv(waiting.VARIABLE, text)
    with waiting.hints("demo") as watch:
        assert watch.seconds == seconds and not watch.stop.is_set()
    assert watch.stop.is_set()


def test_0_is_none(monkeypatch):
    started = []
    monkeypatch.setenv(waiting.VARIABLE, "0")
    monkeypatch.setattr(waiting.threading, "Thread", lambda **options: started.append(options))
    with waiting.hints("demo"):
        assert not started


def test_a_store_that_is_gone_ends_the_watch_and_not_the_program(monkeypatch):
    def gone(self, dist):
        raise RuntimeError("Broken pipe")

    monkeypatch.setattr(waiting.Watch, "look", gone)
    monkeypatch.setattr(waiting, "_group", lambda: object())
    waiting.Watch("demo", 1e-3, print).run()  # returns
