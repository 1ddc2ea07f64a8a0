"""The parts that execute a chapter: spares, the watch, turns, what is written of an outcome."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import build_record
import execute
import psutil
import pytest
import stopped
from execution import page, watch
from execution.outcome import Failure, Outcome
from execution.turns import BUSY, Turns

from tests.waiting import until

SPARE = """
import os, sys
from execution.spare import Spare
loaded = "loaded before"
spare = Spare("a spare")
read, write = os.pipe()
process = spare.start([sys.executable, "-u", {program}], dict(os.environ, MARK="given"),
                      {cwd!r}, [write])
os.close(write)
print(os.read(read, 1000).decode(), process.wait())
"""


def run(code: str) -> str:
    """What a Python of its own prints."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("form", ["-c", "-m", "path"])
def test_a_spare_becomes_the_program_that_it_is_told_to_be(tmp_path, form):
    """With its arguments, environment, folder, files, and its exit code."""
    code = """
import os, sys
words = [__name__, *sys.argv[1:], os.environ["MARK"], os.path.basename(os.getcwd())]
os.write(int(sys.argv[1]), " ".join(words).encode())
sys.exit(7)"""
    (tmp_path / "program.py").write_text(code)
    start = {"-c": ["-c", code], "-m": ["-m", "program"], "path": [str(tmp_path / "program.py")]}
    words = ", ".join(repr(word) for word in start[form]) + ", str(write), 'more'"
    said = run(SPARE.format(program=words, cwd=str(tmp_path))).split()
    assert said[0] == "__main__" and said[2:] == ["more", "given", tmp_path.name, "7"]


def test_a_spare_ends_with_the_process_that_made_it():
    code = """
import os, time
from execution.spare import Spare
print(Spare("a spare").pid, flush=True)
os.kill(os.getpid(), 9)"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    until(lambda: not running(int(done.stdout)))


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Looks(watch.Watch):
    """A watch whose processes take what the test says, a look at a time."""

    def __init__(self, limit: float):
        self.ended = []
        super().__init__(lambda: self.ended.append(True), limit)

    def see(self, seconds: float) -> None:
        self._recent += seconds
        self._judge()


def test_a_page_stands_still_when_neither_processor_nor_output_says_else():
    """After its limit, once; a hundredth of a core is waiting, a tenth is work."""
    looks = round(10 / watch.EVERY)
    waits, works, tells = Looks(10), Looks(10), Looks(10)
    for look in range(looks + 1):
        waits.see(0.01 * watch.EVERY)
        works.see(0.1 * watch.EVERY)
        tells.see(0)
        if look == looks // 2:
            tells.progress()
    assert (waits.ended, works.ended, tells.ended) == ([True], [], [])


def test_processor_time_counts_for_the_cell_that_took_it(monkeypatch):
    """What was taken since the last look is the last cell's, not that of the one that begins."""
    times = SimpleNamespace(user=2.0, system=0.0)
    process = SimpleNamespace(
        pid=1, name=lambda: "kernel", create_time=lambda: 0.0, cpu_times=lambda: times
    )
    monkeypatch.setattr(watch, "below", lambda: [process])
    page = Looks(10)
    page.begin("first")
    times.user = 5.0
    page.begin("second")
    assert page.cpu == {("kernel", "start"): 2.0, ("kernel", "first"): 3.0}


@pytest.mark.parametrize("asked", [False, True])
def test_memory_is_looked_at_where_it_is_asked_for(monkeypatch, asked):
    """Twenty milliseconds for each process, each time: a build does without."""
    monkeypatch.setattr(watch, "below", lambda: [psutil.Process()])
    page = Looks(10)
    page.with_memory = asked
    page.start()
    page.stop()
    assert (page.peak_bytes > 0) == asked


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv(watch.STALLED_AFTER, text)
    with pytest.raises(ValueError, match=f"{watch.STALLED_AFTER}={text} is no number of seconds"):
        watch.stalled_after()


def cell(*tags: str) -> SimpleNamespace:
    return SimpleNamespace(metadata={"tags": list(tags)})


def test_cells_share_the_room_but_for_one_that_is_alone(tmp_path):
    """Two at once; then one that waits for both, and keeps out who comes later."""
    one, two, alone, later = (Turns(tmp_path, lambda: None) for _ in range(4))
    one.begin(cell())
    two.begin(cell("hide-cell"))
    order: list[str] = []

    def enter(turns, name, *tags):
        turns.begin(cell(*tags))
        order.append(name)

    first = threading.Thread(target=enter, args=(alone, "alone", "alone"))
    first.start()
    until(lambda: shut(tmp_path / "door"))
    second = threading.Thread(target=enter, args=(later, "later"))
    second.start()
    one.end()
    assert order == []
    two.end()
    first.join()
    assert order == ["alone"]
    alone.end()
    second.join()
    assert order == ["alone", "later"]


def test_where_others_keep_the_machine_busy_nobody_is_alone(tmp_path, monkeypatch):
    one, two = (Turns(tmp_path, lambda: None) for _ in range(2))
    one.begin(cell())
    monkeypatch.setenv(BUSY, "1")
    two.begin(cell("alone"))
    assert not shut(tmp_path / "door")


def test_who_times_something_comes_last_and_the_longest_first_among_others(tmp_path, monkeypatch):
    seconds = {"short": 1.0, "long": 9.0, "timed": 20.0}
    monkeypatch.setattr(execute, "expected_seconds", lambda path: seconds[path.stem])
    for name in seconds:
        tags = ["alone"] if name == "timed" else []
        text = json.dumps({"cells": [{"metadata": {}}, {"metadata": {"tags": tags}}]})
        (tmp_path / f"{name}.ipynb").write_text(text)
    order = sorted(((tmp_path / f"{name}.ipynb", "") for name in seconds), key=execute.place)
    assert [path.stem for path, _ in order] == ["long", "short", "timed"]


def shut(path) -> bool:
    """Does somebody wait inside of the door?"""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_an_outcome_goes_through_json():
    outcome = Outcome(
        "file", 1.5, 2.5, 3, {"kernel": 1.0}, {"start": 1.0}, Failure("died", "c", "w")
    )
    assert Outcome.of(outcome.as_dict()) == outcome
    assert Outcome.of(Outcome("file").as_dict()) == Outcome("file")


@pytest.mark.parametrize("kind", sorted(stopped.WHAT_TO_DO))
def test_every_kind_of_failure_has_its_row(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(stopped, "ROOT", tmp_path)
    outcome = Outcome("", failure=Failure(kind, "proof", "ValueError: no " + "why " * 100))
    done = execute.Done(tmp_path / "32_padding.ipynb", outcome, tmp_path / "logs" / "a.log", True)
    title, why, log, advice = stopped.list_of([done]).strip().split("\n")[2:]
    assert title == "32_padding stopped in cell 'proof' (tried twice)"
    assert why.startswith("  why: ValueError: no why") and len(why) < 210
    assert log == "  log: logs/a.log" and advice == f"  what to do: {stopped.WHAT_TO_DO[kind]}"


def test_an_assertion_without_words_is_named_by_its_line():
    report = "Cell In[16], line 10\n      9     b = 1\n---> 10     assert a == b\n     11 c"
    assert page.line_of(report) == "assert a == b"
    assert page.line_of("the kernel died") == ""


def test_a_long_report_is_shown_by_its_ends(tmp_path):
    """A compiler's had three thousand lines; the list of what stopped stood below them."""
    report = "\n".join(map(str, range(3000)))
    failure = Failure("raised", "proof", "ValueError: no", report)
    done = execute.Done(tmp_path / "32_padding.ipynb", Outcome("", failure=failure), tmp_path)
    said = stopped.shown(done)
    assert said.count("\n") < 80
    assert "\n39\n[... 2940 lines more, on the page ...]\n2980\n" in said and "\n2999\n" in said
    assert stopped.shortened("\n".join(map(str, range(61)))).count("\n") == 60


def test_two_at_a_time_only_where_the_memory_suffices(monkeypatch, tmp_path):
    free, looks, entered = [10e9], [], []
    monkeypatch.setattr(execute, "free_bytes", lambda: looks.append(len(entered)) or free[0])
    monkeypatch.setattr(execute, "page_bytes", lambda name: 3e9)
    room = execute.Room()
    room.enter(tmp_path / "a")
    room.enter(tmp_path / "b")  # there is room for both
    room.leave()
    free[0] = 1e9
    waiting = threading.Thread(target=lambda: (room.enter(tmp_path / "c"), entered.append("c")))
    waiting.start()
    before = len(looks)
    until(lambda: len(looks) > before + 2)  # it has looked and waited, and looks again
    assert not entered
    room.leave()  # one alone may always
    waiting.join()
    assert entered == ["c"]


def test_the_record_says_what_a_build_takes(monkeypatch):
    known = {
        "where": "2 CPU cores, x86_64", "processor": "X",
        "whole": {"minutes": 11.4, "peak GB": 5.25, "disk GB": 0.41},
        "rows": [{"page": "12_a", "seconds": 9.5, "peak GB": 1.5}],
    }  # fmt: skip
    monkeypatch.setattr(build_record, "record", lambda: known)
    build_record.pages.cache_clear()
    assert build_record.in_words() == (
        "All of it took 11 minutes on 2 CPU cores, x86_64 (X), with up to 5.2 GB of memory and "
        "0.4 GB of disk."
    )
    assert build_record.page_seconds("12_a") == 9.5 and build_record.page_seconds("13_b") is None
    assert build_record.page_bytes("12_a") == 1.5e9
    assert build_record.page_bytes("13_b") == build_record.A_PAGE * 1e9
    build_record.pages.cache_clear()
