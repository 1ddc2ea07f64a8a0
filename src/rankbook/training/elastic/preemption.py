"""Leaving in time: a signal is noted, and obeyed by all ranks together after the same step.

A rank that cannot end its step, as it waits for one that is gone, leaves alone.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import torch
import torch.distributed as dist

from rankbook.core.placement import group_device
from rankbook.training.elastic.signal_watch import SignalWatch, where_main_thread_is

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h: not done, and worth another start


class PreemptionHandler:
    """That this process has been told to end: by torchrun, a scheduler, or the cloud.

    From here on the signals are noted and not obeyed, so that the step in flight can end and be
    saved. What sent them ends this process anyway if that takes too long: torchrun after its
    ``--shutdown-timeout``. Has to be made in the main thread. As a context manager it gives the
    signals back in the end.

    grace: seconds from a signal until `agreed` has returned; a thread ends this process with status
    75 if it takes longer, as the main thread is blocked: in a collective, say, by a rank that is
    gone. None: nothing watches. stuck: called before, in that thread, with the signal and where the
    main thread stands; it must neither wait for anybody nor read a disk. What was not saved is
    lost: a step that is half done cannot be saved. While a call into C holds the GIL, no thread
    runs, so this cannot help, and who sent the signal has to kill.
    """

    def __init__(
        self,
        signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGUSR1),
        grace: float | None = None,
        stuck: Callable[[signal.Signals, str], object] | None = None,
    ):
        self.given: signal.Signals | None = None  # the first signal that this process got
        self._before = {each: signal.signal(each, self._note) for each in signals}
        self._stuck = stuck
        self._watch = None if grace is None else SignalWatch(signals, grace, self._give_up)

    def __enter__(self) -> "PreemptionHandler":
        return self

    def __exit__(self, *error) -> None:
        if self._watch:
            self._watch.stop()
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, frame: object) -> None:
        self.given = self.given or signal.Signals(number)

    def _give_up(self, given: signal.Signals) -> None:
        """End this process for its main thread; in the watching thread."""
        where = where_main_thread_is()
        try:
            if self._stuck:
                self._stuck(given, where)
            else:
                line = f"{given.name}: this process ends; its main thread is in {where}\n"
                os.write(2, line.encode())
        finally:
            os._exit(TRY_AGAIN)

    def agreed(self, group: dist.ProcessGroup | None = None) -> bool:
        """Whether any rank got a signal; on all ranks of `group`, which all hear the same.

        An all_reduce, whose result is read: with nccl the CPU waits here until the GPU has done all
        that was asked of it. With a `group` of gloo it does not; or ask every few steps.
        """
        leaving = self.given is not None
        if dist.is_available() and dist.is_initialized():
            flag = torch.tensor([float(leaving)], device=group_device(group))
            dist.all_reduce(flag, dist.ReduceOp.MAX, group)
            leaving = bool(flag)
        if leaving and self._watch:
            self._watch.obeyed()  # saving may take its time
        return leaving

    def leave(self, wait: float = 2.0) -> NoReturn:
        """End this process when all is saved; never with status 0, which says that the job is done.

        Who got a signal ends by it. Who has only heard of another's waits up to `wait` seconds for
        its own, as torchrun may be about to start everybody anew, and then ends with status 75:
        its agent starts it again, and another number of ranks goes on.
        """
        end = time.monotonic() + wait
        while self.given is None and time.monotonic() < end:
            time.sleep(0.01)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if self.given is None:
            os._exit(TRY_AGAIN)  # no clean-up: it would wait for ranks that have left
        signal.signal(self.given, signal.SIG_DFL)
        os.kill(os.getpid(), self.given)
        signal.pause()
        raise AssertionError("unreachable")
