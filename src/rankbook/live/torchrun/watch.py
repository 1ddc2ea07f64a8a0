"""Waiting for launches: show what they print, look after them while they hang, end them."""

import signal
import time
from collections.abc import Callable, Collection

from rankbook.live.torchrun.launch import TICK, Launch
from rankbook.live.torchrun.lookout import JobWatchdog, Lingering
from rankbook.live.torchrun.report import interrupted

BACKLOG = 2000  # lines of what was not shown yet that an interrupt still lets through


def watch(launches: list[Launch], job: Collection[Launch], show: Callable) -> None:
    """Show events in the order of time until all `launches` have ended.

    job: these, and the others that belong to it. Raises CellFailed if the reader interrupts.
    """
    say = launches[0].say
    looks = [JobWatchdog(lambda: [launch for launch in job if launch.running], say)]
    looks += [Lingering(launch, say) for launch in launches]
    try:
        while any(launch.running for launch in launches):
            _show_events(launches, show)
            for lookout in looks:
                lookout.look()
            time.sleep(TICK)
        _show_events(launches, show)
    except KeyboardInterrupt:
        began = time.monotonic()
        _end([launch for launch in launches if launch.running])
        _show_events(launches, show, BACKLOG)
        endings = [ending for launch in launches for ending in launch.endings]
        raise interrupted(endings, time.monotonic() - began) from None


def _end(launches: list[Launch]) -> None:
    """The reader interrupts: politely first, at once when interrupted again."""
    try:
        for launch in launches:
            launch.send_signal(signal.SIGINT)
        for launch in launches:
            launch.end(signal.SIGINT)
    except KeyboardInterrupt:
        for launch in launches:
            launch.destroy()


def _show_events(launches: list[Launch], show: Callable, last: int | None = None) -> None:
    """Show what the reader has not seen, in the order of time; of `last` at most so many lines."""
    fresh = []
    for launch in launches:
        events = launch.events[launch.shown :]
        launch.shown += len(events)
        fresh += events
    fresh.sort(key=lambda event: event[0])
    if last is not None and len(fresh) > last:
        show("stderr", f"... {len(fresh) - last} lines are left out: %torchrun logs has them")
        fresh = fresh[-last:]
    for _, kind, content in fresh:
        show(kind, content)
