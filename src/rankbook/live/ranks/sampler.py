"""How long a rank waits for the others: its state, looked at while a cell runs."""

import threading
import time

from rankbook.live.ranks import where

EVERY = 0.02  # seconds from one look to the next
IDLE = 0.3  # of the time between two looks: with less processor time, the process only waited


class Sampler(threading.Thread):
    """Notes when this rank is in a collective and uses no processor: then it waits.

    The flight recorder does not know: with gloo it has no time at which a call began to wait.
    """

    def __init__(self, shell):
        super().__init__(daemon=True, name="rankbook-sampler")
        self._shell, self._end = shell, threading.Event()
        self._began = time.monotonic()
        self._waits: list[list] = []  # begin, end, call
        self.start()

    def run(self) -> None:
        """Look until `stop`."""
        before, used = time.monotonic(), time.process_time()
        while not self._end.wait(EVERY):
            call = where.glance(self._shell)
            now, use = time.monotonic(), time.process_time()
            if call.op and use - used < IDLE * (now - before):
                self._note(before, now, call.place)
            before, used = now, use

    def _note(self, begin: float, end: float, place: str) -> None:
        last = self._waits[-1] if self._waits else None
        if last and last[1] == begin and last[2] == place:
            last[1] = end
        else:
            self._waits.append([begin, end, place])

    def stop(self) -> dict:
        """End looking; return what was seen, for `rankbook.live.ranks.timing.Timing`."""
        self._end.set()
        self.join()
        return {"begin": self._began, "end": time.monotonic(), "waits": self._waits}
