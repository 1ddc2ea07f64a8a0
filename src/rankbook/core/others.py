"""How much of this machine other programs took while something was timed."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

QUIET = 0.1  # of the cores: more than that, and a time says little
COUNTED = (0, 1, 2, 5, 6, 7)  # of a line of /proc/stat: user, nice, system, irq, softirq, steal


@dataclass
class Others:
    """share: of all cores, between 0 and 1; known when the ``with`` is left."""

    share: float = 0.0

    @property
    def quiet(self) -> bool:
        """Whether times that were taken meanwhile say something."""
        return self.share <= QUIET

    def __str__(self) -> str:
        said = f"other programs took {self.share:.0%} of the cores meanwhile"
        return said if self.quiet else f"{said}: too busy to judge by these times"


@contextmanager
def others() -> Iterator[Others]:
    """Watch the machine while something is timed, in a notebook, on a rank or in a program::

        with others() as other:
            seconds = time_interleaved(work, 5)
        if other.quiet:
            judge(seconds)

    Other programs are all but the notebook, its ranks and what they started. Counted in the
    system's ticks of a hundredth of a second, so of use for a tenth of a second and more. Without
    /proc/stat the share is 0: nothing is known. Source: proc_stat(5).
    """
    found = Others()
    began, whole, own = time.monotonic(), _whole(), _own()
    yield found
    seconds = (time.monotonic() - began) * (os.cpu_count() or 1)
    taken = (_whole() - whole) - (_own() - own)
    found.share = min(1.0, max(0.0, taken / seconds)) if seconds else 0.0


def _whole() -> float:
    """Seconds of processor time of everything on this machine."""
    with suppress(OSError, ValueError, IndexError):
        words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        return sum(int(words[n]) for n in COUNTED) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _own() -> float:
    """Seconds of processor time of this notebook: its kernel, its ranks, what they started."""
    import psutil

    notebook = multiprocessing.parent_process()  # on a rank; in the notebook itself there is none
    total = 0.0
    with suppress(psutil.Error):
        first = psutil.Process(notebook.pid if notebook else None)
        for process in (first, *first.children(recursive=True)):
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])  # those of children that ended among them
    return total
