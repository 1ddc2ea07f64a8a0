"""What the processes below this one do: whether they get on, their processor time, their memory."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from execution.leaving import below

STALLED_AFTER = "RANKBOOK_STALLED_AFTER"  # seconds, in the environment
DEFAULT_STALL = 300.0
# Processes that only wait still look at clocks and pipes: a notebook with four idle ranks takes
# about a hundredth of a core. A page that computes takes whole cores, or what others leave of them.
IDLE = 0.05  # of a core
# A look reads about all processes: five a second, of four pages, took a sixth of two cores.
EVERY = 1.0  # seconds between two looks
# To add up a process's memory takes 20 ms: of three pages, at this pace, a tenth of two cores.
MEMORY_EVERY = 3  # looks between two at the memory


def stalled_after() -> float:
    """How many seconds a page may stand still; raises ValueError where that is set to no number."""
    text = os.environ.get(STALLED_AFTER, str(DEFAULT_STALL))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:  # nan is not, either
        raise ValueError(f"{STALLED_AFTER}={text} is no number of seconds; give one, such as 600")
    return seconds


class Watch:
    """Looks at all processes below this one, from a thread, until it is stopped.

    stalled: called once, when for `limit` seconds they took less than `IDLE` of a core and
    `progress` was not called. Processor time counts for what `begin` named last.
    After `stop`, cpu has the seconds by (process, doing). If asked for `with_memory`, peak_bytes
    has the most memory at one time (proportional set size: what is shared is counted once).
    """

    def __init__(self, stalled: Callable[[], None], limit: float):
        self.cpu: Counter[tuple[str, str]] = Counter()
        self.peak_bytes, self._doing = 0, "start"
        self.with_memory = False
        self._stalled, self._limit = stalled, limit
        self._seen: dict[tuple[int, float], float] = {}
        self._still, self._recent = 0.0, 0.0
        self._stop, self._counting = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look once more, then no longer."""
        self._stop.set()
        self._thread.join()

    def begin(self, doing: str) -> None:
        """From now on, processor time counts for `doing`."""
        self._count(below())
        self._doing = doing

    def progress(self) -> None:
        """Something got on that takes no processor time: a line of output, a cell that begins."""
        self._still = self._recent = 0.0

    def _run(self) -> None:
        look = 0
        while True:
            last = self._stop.wait(EVERY)
            processes = below()
            self._recent += self._count(processes)
            if self.with_memory and look % MEMORY_EVERY == 0:
                self.peak_bytes = max(self.peak_bytes, sum(map(memory, processes)))
            look += 1
            if last:
                return
            self._judge()

    def _count(self, processes: list[psutil.Process]) -> float:
        """Add up what each took since the last look; return the sum, in seconds."""
        total = 0.0
        for process in processes:
            with suppress(psutil.Error), self._counting:
                times, key = process.cpu_times(), (process.pid, process.create_time())
                now = times.user + times.system
                took = now - self._seen.get(key, 0.0)
                self._seen[key] = now
                self.cpu[process.name(), self._doing] += took
                total += took
        return total

    def _judge(self) -> None:
        self._still += EVERY
        if self._recent > IDLE * self._limit:
            self.progress()
        elif self._still >= self._limit:
            self.progress()
            self._stalled()


def memory(process: psutil.Process) -> int:
    """Bytes that `process` holds, its part of what it shares with others included."""
    with suppress(OSError, ValueError):
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        return 1024 * int(text.partition("\nPss:")[2].split()[0])
    return 0
