"""A build that is ended or has to wait, of a small book: nothing is left, and nothing lost."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from tests.site.small_book import execute, executed, write_chapter

LONG = pytest.mark.long
WAYS = ["TERM", *(pytest.param(way, marks=LONG) for way in ("INT", "KILL", "KILL of make"))]
ENDLESS = """import os, pathlib, subprocess, sys, time
%load_ext rankbook
%ranks start -n 2
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
pathlib.Path({ready!r}).touch()
time.sleep(3600)"""


@pytest.mark.parametrize("how", WAYS)
def test_an_interrupted_build_leaves_nothing_and_the_next_goes_on(book, tmp_path, how):
    """No process, no lock; one sentence where there is time for one; what was executed is kept."""
    ready, first = tmp_path / "ready", "print('first')"
    write_chapter(book, first, "02_other")
    write_chapter(book, ENDLESS.format(ready=str(ready)))
    (book / "_build").mkdir()
    mark = f"{book}-{how}"
    build_it = [sys.executable, str(book / "book" / "build.py")]
    supervise = [sys.executable, str(book / "book" / "supervise.py"), *build_it]
    made = ["sh", "-c", '"$@"; true', "sh", *supervise]  # as make: a process between
    process = subprocess.Popen(
        made if how == "KILL of make" else build_it,
        env={**os.environ, "BUILD_MARK": mark}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    kept = book / "_build" / "executions" / "02_other"
    assert until(
        lambda: (ready.exists() and any(kept.glob("*.ipynb"))) or process.poll() is not None
    )
    assert process.poll() is None and len(marked(mark)) > 5
    process.send_signal(getattr(signal, f"SIG{how.split()[0]}"))
    said, _ = process.communicate()
    assert until(lambda: not marked(mark)), marked(mark)
    assert "Traceback" not in said
    if not how.startswith("KILL"):
        assert process.returncode == 128 + getattr(signal, f"SIG{how}")
        assert f"Ended by SIG{how}. 1 executed chapters are kept" in said
    write_chapter(book, "print('last')")
    assert executed(execute(book)) == ["01_part"]


def test_a_second_build_says_for_whom_it_waits(book):
    (book / "_build").mkdir()
    with (book / "_build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 4711, since 12:00:00")
        lock.flush()
        command = [sys.executable, "-u", str(book / "book" / "build.py")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            line = second.stdout.readline()
            second.terminate()
            rest = second.stdout.read()
    assert line == "Waiting for another build in this checkout: process 4711, since 12:00:00\n"
    assert "Ended by SIGTERM" in rest and second.returncode == 128 + signal.SIGTERM


def until(holds, seconds: float = 600) -> bool:
    """Wait until it holds; the limit ends a hang, nothing else."""
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return bool(found)


def marked(mark: str) -> list[str]:
    """What carries the mark and still runs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("BUILD_MARK") == mark and process.status() != "zombie":
                found.append(f"{process.pid} {process.name()} {process.cmdline()}")
    return found
