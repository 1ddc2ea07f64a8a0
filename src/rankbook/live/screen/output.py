"""Many ranks, one output: lines get a rank prefix, equal lines of several ranks are shown once."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

WINDOW = 0.15  # seconds that a line waits for the same line of other ranks


def label(ranks: Iterable[int]) -> str:
    """Short name of a set of ranks: ``{0, 1, 2, 3}`` is ``[0-3]``, ``{0, 2}`` is ``[0,2]``."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return "[" + ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs) + "]"


@dataclass(frozen=True)
class Item:
    """One thing a rank showed: a line of text, or a display (a figure, a table)."""

    kind: str  # "stdout", "stderr" or "display"
    content: str  # a line without its end, or a display's (data, metadata) as JSON text


@dataclass
class _Rank:
    partial: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    queue: deque = field(default_factory=deque)  # of (arrival time, Item)
    finished: bool = False
    hidden: int = 0  # items that were forgotten


class Merger:
    """Merges what ranks print, in each rank's own order.

    A line waits up to `window` seconds (`WINDOW`) for the same line of the other ranks. A progress
    bar (text that goes back with ``\\r``) does not wait: its latest state goes to `bar`.

    emit: called with the ranks (a set) and the `Item`.
    bar: called with the rank, the bar's text and whether the bar is complete.
    """

    def __init__(
        self,
        ranks: Iterable[int],
        emit: Callable[[set, Item], None],
        bar: Callable[[int, str, bool], None] | None = None,
        window: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._ranks = {rank: _Rank() for rank in ranks}
        self._emit, self._bar, self._clock = emit, bar, clock
        self._window = WINDOW if window is None else window

    def add(self, rank: int, stream: str, text: str) -> None:
        """Take text of any length from `rank`; `stream` is ``"stdout"`` or ``"stderr"``."""
        state = self._ranks[rank]
        *lines, rest = (state.partial[stream] + text).split("\n")
        for line in lines:
            self._line(rank, stream, line.removesuffix("\r"))
        state.partial[stream] = self._latest_bar(rank, rest)

    def add_item(self, rank: int, item: Item) -> None:
        """Take a display from `rank`, after the text it printed before; its bar goes on."""
        self._push_partials(rank, bars=False)
        self._ranks[rank].queue.append((self._clock(), item))

    def finish(self, rank: int) -> None:
        """`rank` will show nothing more; unfinished lines count as lines."""
        self._push_partials(rank)
        self._ranks[rank].finished = True
        self._tell_hidden(self._ranks[rank])

    def flush(self, everything: bool = False, seconds: float | None = None) -> bool:
        """Emit what is ready: seen on every running rank, or older than the window.

        everything: whether it is ready or not. Returns False if `seconds` were not enough.
        """
        end = None if seconds is None else self._clock() + seconds
        while self._emit_same() or self._emit_next(everything):
            if end is not None and self._clock() > end:
                return False
        return True

    def shorten(self, lines: int) -> None:
        """Forget what waits, but for the first `lines` of each rank; its last line will say so."""
        for state in self._ranks.values():
            if len(state.queue) > lines + 1:
                while len(state.queue) > lines:
                    state.queue.pop()
                    state.hidden += 1
                if state.finished:
                    self._tell_hidden(state)

    def _tell_hidden(self, state: _Rank) -> None:
        if state.hidden:
            note = Item("stderr", f"... {state.hidden:,} more lines, which are not shown")
            state.queue.append((self._clock(), note))
            state.hidden = 0

    def _latest_bar(self, rank: int, rest: str) -> str:
        if "\r" not in rest or self._bar is None:
            return rest
        text = rest.rstrip("\r").rpartition("\r")[2]
        if text.strip():
            self._bar(rank, text, False)
        return "\r" + text

    def _line(self, rank: int, stream: str, line: str) -> None:
        if "\r" in line and self._bar is not None:
            self._bar(rank, line.rpartition("\r")[2], True)
        else:
            self._ranks[rank].queue.append((self._clock(), Item(stream, line)))

    def _push_partials(self, rank: int, bars: bool = True) -> None:
        for stream, rest in self._ranks[rank].partial.items():
            if "\r" in rest and not bars:
                continue
            if rest.strip("\r"):
                self._line(rank, stream, rest)
            self._ranks[rank].partial[stream] = ""

    def _emit_same(self) -> bool:
        """Emit the next item if every rank has the same: nearly always, and quick."""
        queues = [state.queue for state in self._ranks.values()]
        if not queues or not all(queues) or any(queue[0][1] != queues[0][0][1] for queue in queues):
            return False
        items = [queue.popleft()[1] for queue in queues]
        self._emit(set(self._ranks), items[0])
        return True

    def _emit_next(self, everything: bool) -> bool:
        waiting = {r: s.queue[0] for r, s in self._ranks.items() if s.queue}
        if not waiting:
            return False
        idle = everything or all(r in waiting or s.finished for r, s in self._ranks.items())
        item = self._choose(waiting)
        same = {r for r, (_, other) in waiting.items() if other == item}
        complete = all(r in same or s.finished for r, s in self._ranks.items())
        oldest = min(arrival for arrival, _ in waiting.values())
        if not (complete or idle or self._clock() - oldest > self._window):
            return False
        for rank in same:
            self._ranks[rank].queue.popleft()
        self._emit(same, item)
        return True

    def _choose(self, waiting: dict) -> Item:
        """Prefer a head that no other rank holds further back: it cannot be merged by waiting."""
        for rank in sorted(waiting):
            item = waiting[rank][1]
            if not any(self._holds_later(r, item) for r in waiting if r != rank):
                return item
        return waiting[min(waiting)][1]

    def _holds_later(self, rank: int, item: Item, depth: int = 50) -> bool:
        queue = self._ranks[rank].queue
        return any(queue[i][1] == item for i in range(1, min(len(queue), depth)))
