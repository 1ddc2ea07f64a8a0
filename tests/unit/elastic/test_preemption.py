"""A signal is noted, not obeyed; and how a process ends then: also one that is stuck."""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from rankbook.elastic import PreemptionHandler
from rankbook.elastic.signal_watch import SignalWatch, where_main_thread_is

SOON = 900.0  # seconds, for what takes a moment on a free machine


def never_returns(library: ctypes.CDLL) -> None:
    """A call into C that no signal ends: this thread waits for a lock that it holds itself.

    ctypes.CDLL lets go of the GIL meanwhile, as torch does in its collectives; PyDLL keeps it.
    """
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        library.pthread_mutex_lock(mutex)


def in_a_child(work: Callable[[], None]) -> multiprocessing.Process:
    """A process that has torch and runs `work`."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    return child


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


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


def blocked(library: type[ctypes.CDLL], grace: float | None, log: Path):
    """Note signals, and never return to Python; one that is stuck writes where to `log`."""

    def work() -> None:
        call = library(None)

        def stuck(given: signal.Signals, where: str) -> None:
            with log.open("a") as file:
                file.write(f"{given.name}: {where}\n")

        with PreemptionHandler(grace=grace, stuck=stuck):
            if library is ctypes.PyDLL:
                stacks = log.open("a")
                faulthandler.register(signal.SIGTERM, stacks, all_threads=False, chain=True)
            log.write_text("blocked\n")
            never_returns(call)

    return in_a_child(work)


def until_blocked(child: multiprocessing.Process, log: Path) -> None:
    """Wait until the child has said that it goes into the call, and then sleeps for 20 looks."""
    until(lambda: log.exists() and "blocked" in log.read_text())
    process = psutil.Process(child.pid)

    def sleeps() -> bool:
        time.sleep(0.01)
        return process.status() == psutil.STATUS_SLEEPING

    until(lambda: all(sleeps() for _ in range(20)))


def test_a_main_thread_that_never_returns_to_python_is_ended_after_the_grace(tmp_path):
    child = blocked(ctypes.CDLL, 0.2, log := tmp_path / "log")
    until_blocked(child, log)
    os.kill(child.pid, signal.SIGTERM)
    child.join(SOON)
    assert child.exitcode == 75
    assert "SIGTERM: never_returns (test_preemption.py:" in log.read_text()


@pytest.mark.parametrize(
    ("library", "grace", "stack"),
    [(ctypes.CDLL, None, False), (ctypes.PyDLL, 0.2, True)],
    ids=["nobody watches", "the GIL is held"],
)
def test_only_a_kill_ends_it_otherwise(library, grace, stack, tmp_path):
    child = blocked(library, grace, log := tmp_path / "log")
    until_blocked(child, log)
    os.kill(child.pid, signal.SIGTERM)
    if stack:  # what is in C only still runs: this, not the thread that would end the process
        until(lambda: "in never_returns" in log.read_text())
    child.join(1.5)
    assert child.exitcode is None
    assert ("in never_returns" in log.read_text()) == stack and "SIGTERM" not in log.read_text()
    child.kill()
    child.join()


def test_a_rank_that_waits_for_a_stopped_one_is_ended_after_the_grace(tmp_path, capfd):
    def rank(number: int) -> None:
        store = dist.FileStore(str(tmp_path / "store"), 2)
        patience = timedelta(seconds=SOON)
        dist.init_process_group("gloo", store=store, rank=number, world_size=2, timeout=patience)
        with PreemptionHandler(grace=0.3) as notice:
            assert not notice.agreed()
            (tmp_path / f"ready{number}").touch()
            if number == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            dist.all_reduce(torch.ones(1))

    children = [in_a_child(lambda number=number: rank(number)) for number in range(2)]
    until(lambda: all((tmp_path / f"ready{number}").exists() for number in range(2)))
    time.sleep(0.3)  # until rank 0 waits
    os.kill(children[0].pid, signal.SIGTERM)
    children[0].join(SOON)
    children[1].kill()
    children[1].join()
    said = capfd.readouterr().err
    assert children[0].exitcode == 75
    assert "SIGTERM: this process ends; its main thread is in all_reduce" in said, said


def test_one_that_obeys_in_time_may_save_for_longer_than_the_grace():
    def work() -> None:
        with PreemptionHandler(grace=0.2) as notice:
            os.kill(os.getpid(), signal.SIGTERM)
            assert notice.agreed()
            time.sleep(0.6)  # saves
        os._exit(7)

    child = in_a_child(work)
    child.join(SOON)
    assert child.exitcode == 7


def test_a_watch_hands_on_and_gives_back():
    heard, other = os.pipe()
    os.set_blocking(other, False)
    before = signal.signal(signal.SIGUSR1, lambda *args: None)
    owner = signal.set_wakeup_fd(other)
    late = []
    try:
        watch = SignalWatch([signal.SIGUSR2], 0.0, late.append)
        os.kill(os.getpid(), signal.SIGUSR1)  # not its own
        assert os.read(heard, 1) == bytes([signal.SIGUSR1])
        watch.stop()
        assert signal.set_wakeup_fd(owner) == other and not late
        assert "watch" not in {thread.name for thread in threading.enumerate()}
    finally:
        signal.set_wakeup_fd(owner)
        signal.signal(signal.SIGUSR1, before)
        os.close(heard), os.close(other)


def test_where_the_main_thread_is_can_be_asked_from_another():
    found = []
    asking = threading.Thread(target=lambda: found.append(where_main_thread_is(depth=6)))
    asking.start()
    asking.join()
    assert "test_where_the_main_thread_is_can_be_asked_from_another (test_pree" in found[0]
    assert found[0].count(" < ") == 5
