"""A signal is noted, not obeyed; and how a process ends then."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

from rankbook.elastic import PreemptionHandler


def leave(own: signal.Signals | None, later: signal.Signals | None) -> int:
    """The exit code of a process that gets one signal, leaves, and gets another meanwhile."""

    def work() -> None:
        notice = PreemptionHandler()
        if own:
            os.kill(os.getpid(), own)
        if later:
            threading.Timer(0.3, os.kill, (os.getpid(), later)).start()
        assert notice.agreed() == (own is not None)
        notice.leave(wait=30.0 if later else 1.0)

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    return child.exitcode


def test_noted_and_not_obeyed_until_it_is_given_back():
    told = []
    before = signal.signal(signal.SIGTERM, lambda *args: told.append("the one before"))
    try:
        with PreemptionHandler() as notice:
            assert notice.given is None and not notice.agreed()
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert notice.given is signal.SIGTERM and notice.agreed() and not told
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == ["the one before"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("own", [signal.SIGTERM, signal.SIGUSR1])
def test_who_got_a_signal_ends_by_it(own):
    assert leave(own, None) == -own


def test_who_has_only_heard_waits_for_its_own():
    assert leave(None, signal.SIGTERM) == -signal.SIGTERM


def test_and_ends_with_a_status_that_asks_for_a_restart():
    began = time.monotonic()
    assert leave(None, None) == 75 and time.monotonic() - began > 1.0
