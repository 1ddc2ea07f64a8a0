"""A thread that hears a signal while the main thread is blocked, and waits for it to obey.

Python runs a signal's handler in the main thread, between two instructions: not while that thread
is in a collective, in a GPU's ``synchronize`` or in any other call into C. What Python does at
once, in C and whatever the main thread does, is to write the signal's number to a file descriptor.
Source: https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path


class SignalWatch:
    """Call `late`, in a thread, `grace` seconds after the first of `signals`; not after `stop`.

    signals: such as have a handler in Python. The thread needs the GIL: while a call into C holds
    it, nothing of this happens. To be made and stopped in the main thread. Another owner of the
    descriptor, such as asyncio, goes on to hear its signals.
    """

    def __init__(
        self,
        signals: Collection[signal.Signals],
        grace: float,
        late: Callable[[signal.Signals], object],
    ) -> None:
        self._signals, self._grace, self._late = frozenset(signals), grace, late
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)  # the C code that writes must never wait
        self._obeyed = threading.Event()
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="signal watch", daemon=True)
        self._thread.start()

    def obeyed(self) -> None:
        """The main thread has done what the signal asked for, or is doing it."""
        self._obeyed.set()

    def stop(self) -> None:
        """Listen no more; as before, to whom it was before."""
        self.obeyed()
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _watch(self) -> None:
        while number := os.read(self._read, 1):
            if self._before != -1:
                with suppress(OSError):
                    os.write(self._before, number)
            if number[0] in self._signals and not self._obeyed.wait(self._grace):
                self._late(signal.Signals(number[0]))
                return


def where_main_thread_is(depth: int = 4) -> str:
    """Where the main thread stands in Python, the innermost call first: "wait (a.py:3) < ..."."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    calls = reversed(traceback.extract_stack(frame)[-depth:])
    return " < ".join(f"{each.name} ({Path(each.filename).name}:{each.lineno})" for each in calls)
