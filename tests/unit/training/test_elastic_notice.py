"""A signal is noted, not obeyed; and how a process ends then."""

import os
import signal
import subprocess
import sys
import time

import pytest

from rankbook.training.elastic import Notice

LEAVE = """
import os, signal, sys, threading
from rankbook.training.elastic import Notice
notice = Notice()
own, later = sys.argv[1:]
if own != "none":
    os.kill(os.getpid(), getattr(signal, own))
if later != "none":
    threading.Timer(0.3, os.kill, (os.getpid(), getattr(signal, later))).start()
print("saved", notice.agreed())
notice.leave(wait=1.0 if later == "none" else 30.0)
"""


def leave(own: str, later: str) -> tuple[int, str, float]:
    began = time.monotonic()
    command = [sys.executable, "-c", LEAVE, own, later]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, time.monotonic() - began


def test_noted_and_not_obeyed_until_it_is_given_back():
    told = []
    before = signal.signal(signal.SIGTERM, lambda *args: told.append("the one before"))
    try:
        with Notice() as notice:
            assert notice.given is None and not notice.agreed()
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert notice.given is signal.SIGTERM and notice.agreed() and not told
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == ["the one before"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("own", ["SIGTERM", "SIGUSR1"])
def test_who_got_a_signal_ends_by_it(own):
    code, said, _ = leave(own, "none")
    assert (code, said) == (-getattr(signal, own), "saved True\n")


def test_who_has_only_heard_waits_for_its_own():
    code, said, _ = leave("none", "SIGTERM")
    assert (code, said) == (-signal.SIGTERM, "saved False\n")


def test_and_ends_with_a_status_that_asks_for_a_restart():
    code, _, seconds = leave("none", "none")
    assert code == 75 and seconds > 1.0
