"""A signal is noted, not obeyed; and how a process ends then: also one that is stuck."""

import ctypes
import faulthandler
import mmap
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from rankbook.training.elastic import PreemptionHandler
from rankbook.training.elastic.signal_watch import SignalWatch, where_main_thread_is
from tests.waiting import SOON, until

WAITED_FOR = 2  # what glibc makes of a mutex, before it sleeps: locked, and somebody waits


def never_returns(library: ctypes.CDLL, mutex: mmap.mmap) -> None:
    """A call into C that no signal ends: this thread waits for a lock that it holds itself.

    ctypes.CDLL lets go of the GIL meanwhile, as torch does in its collectives; PyDLL keeps it.
    """
    place = ctypes.byref(ctypes.c_char.from_buffer(mutex))
    for _ in range(2):
        library.pthread_mutex_lock(place)


def in_a_child(work: Callable[[], None]) -> multiprocessing.Process:
    """A process that has torch and runs `work`."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    return child


def leave(own: signal.Signals | None, later: signal.Signals | None) -> int:
    """The exit code of a process that gets one signal, leaves, and gets another meanwhile."""

    def work() -> None:
        notice = PreemptionHandler()
        if own:
            os.kill(os.getpid(), own)
        assert notice.agreed() == (own is not None)
        if later:
            threading.Thread(target=send_when_it_leaves, args=(later,)).start()
        notice.leave(wait=SOON if later else 1.0)

    child = in_a_child(work)
    child.join(SOON)
    return child.exitcode


def send_when_it_leaves(signum: signal.Signals) -> None:
    until(lambda: where_main_thread_is().startswith("leave (preemption.py:"))
    os.kill(os.getpid(), signum)


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
    """A process that notes signals and is in a call which never returns to Python.

    One that is stuck writes where to `log`.
    """
    mutex = mmap.mmap(-1, mmap.PAGESIZE)  # both processes see it
    call = library(None)

    def work() -> None:
        def stuck(given: signal.Signals, where: str) -> None:
            with log.open("a") as file:
                file.write(f"{given.name}: {where}\n")

        with PreemptionHandler(grace=grace, stuck=stuck):
            if library is ctypes.PyDLL:
                stacks = log.open("a")
                faulthandler.register(signal.SIGTERM, stacks, all_threads=False, chain=True)
            never_returns(call, mutex)

    log.touch()
    child = in_a_child(work)
    until(lambda: mutex[0] == WAITED_FOR, goes_on=child.is_alive)
    return child


def test_a_main_thread_that_never_returns_to_python_is_ended_after_the_grace(tmp_path):
    child = blocked(ctypes.CDLL, 0.2, log := tmp_path / "log")
    os.kill(child.pid, signal.SIGTERM)
    child.join(SOON)
    assert child.exitcode == 75
    assert "SIGTERM: never_returns (test_preemption.py:" in log.read_text()


def noted(pid: int, signum: signal.Signals) -> bool:
    """Whether no thread of the process has the signal still to come."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s+(\w+)$", status, re.MULTILINE)
    return not any(int(mask, 16) >> (signum - 1) & 1 for mask in pending)


def ended_by_a_kill_only(child: multiprocessing.Process) -> bool:
    if ended := child.is_alive():
        child.kill()
    child.join()
    return ended and child.exitcode == -signal.SIGKILL


def test_only_a_kill_ends_it_where_nobody_watches(tmp_path):
    child = blocked(ctypes.CDLL, None, log := tmp_path / "log")
    os.kill(child.pid, signal.SIGTERM)
    until(lambda: noted(child.pid, signal.SIGTERM), goes_on=child.is_alive)
    # the thread that is blocked is the only one: nobody is there who could end the process
    assert [thread.id for thread in psutil.Process(child.pid).threads()] == [child.pid]
    assert ended_by_a_kill_only(child) and not log.read_text()


def test_only_a_kill_ends_it_while_the_gil_is_held(tmp_path):
    """The thread that would end it asks for the GIL every 5 ms, for longer than the grace."""
    child = blocked(ctypes.PyDLL, grace := 0.2, log := tmp_path / "log")
    (watch,) = {thread.id for thread in psutil.Process(child.pid).threads()} - {child.pid}

    def asked() -> int:
        status = Path(f"/proc/{child.pid}/task/{watch}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", status, re.MULTILINE)[1])

    before = asked()  # it waits for signals: that is one
    os.kill(child.pid, signal.SIGTERM)
    enough = before + 2 * grace / sys.getswitchinterval()
    until(lambda: asked() > enough, goes_on=child.is_alive)
    assert ended_by_a_kill_only(child)
    # what is in C only still runs
    assert "in never_returns" in log.read_text() and "SIGTERM" not in log.read_text()


def main_thread_waits() -> bool:
    """Whether it is in the C of a collective: nothing that `all_reduce` calls is on its stack."""
    frame = sys._current_frames()[threading.main_thread().ident]
    innermost = traceback.extract_stack(frame)[-1]
    return innermost.name == "all_reduce" and innermost.line == "work.wait()"


def test_a_rank_that_waits_for_a_stopped_one_is_ended_after_the_grace(tmp_path, capfd):
    def say_when_it_waits() -> None:
        until(main_thread_waits)
        (tmp_path / "ready0").touch()

    def rank(number: int) -> None:
        store = dist.FileStore(str(tmp_path / "store"), 2)
        patience = timedelta(seconds=SOON)
        dist.init_process_group("gloo", store=store, rank=number, world_size=2, timeout=patience)
        with PreemptionHandler(grace=0.3) as notice:
            assert not notice.agreed()
            if number == 1:
                (tmp_path / "ready1").touch()
                os.kill(os.getpid(), signal.SIGSTOP)
            threading.Thread(target=say_when_it_waits).start()
            dist.all_reduce(torch.ones(1))

    children = [in_a_child(lambda number=number: rank(number)) for number in range(2)]
    until(
        lambda: all((tmp_path / f"ready{number}").exists() for number in range(2)),
        goes_on=children[0].is_alive,
    )
    os.kill(children[0].pid, signal.SIGTERM)
    children[0].join(SOON)
    children[1].kill()
    children[1].join()
    said = capfd.readouterr().err
    assert children[0].exitcode == 75
    assert "SIGTERM: this process ends; its main thread is in all_reduce" in said, said


def test_one_that_obeys_in_time_may_save_for_longer_than_the_grace():
    """Its watch waits no more: it is at the next signal, long before the grace is over."""

    def work() -> None:
        heard, other = os.pipe()
        os.set_blocking(other, False)
        signal.set_wakeup_fd(other)  # the watch hands on what it hears, before it waits
        with PreemptionHandler(grace=SOON) as notice:
            os.kill(os.getpid(), signal.SIGTERM)
            assert notice.agreed()
            os.kill(os.getpid(), signal.SIGUSR1)
            numbers = [os.read(heard, 1)[0] for _ in range(2)]
        os._exit(7 if numbers == [signal.SIGTERM, signal.SIGUSR1] else 1)

    child = in_a_child(work)
    child.join(2 * SOON)
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
        assert "signal watch" not in {thread.name for thread in threading.enumerate()}
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
