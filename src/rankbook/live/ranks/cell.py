"""One cell on all its ranks: send it, show what comes back, end it when a rank fails."""

import json
import time
from itertools import islice

import zmq

from rankbook.live.failure.blame import failed_alike
from rankbook.live.failure.ending import Raised, RankOutcome
from rankbook.live.ranks.interrupt import Interrupt, interrupts
from rankbook.live.ranks.lookout import CellWatchdog
from rankbook.live.ranks.process import RankProcess
from rankbook.live.ranks.report import CellReport, ended
from rankbook.live.ranks.timing import Timing
from rankbook.live.screen.output import Item, Merger
from rankbook.live.screen.show import CellScreen

LOST = 0.5  # seconds after which an idle rank that sent no reply is lost
TURN = 50  # messages of a rank, at most, until the others and the stop button have their turn
SHOW = 0.1  # seconds that showing lines may take until then
LEFT = 1000  # lines of a rank that are still shown after an interrupt
SHORT = 0.05  # seconds that a cell is short
SHOWN = ("display_data", "execute_result", "update_display_data")


class CellRun:
    """The run of one cell on `ranks`, from sending to the report.

    number: the cell's in the notebook. options: see `RankProcess.execute`.
    """

    def __init__(
        self, ranks: dict[int, RankProcess], code: str, number: int | None, silent=False, **options
    ):
        self.ranks = ranks
        self.screen = CellScreen()
        self.merger = Merger(ranks, self.screen.emit, self.screen.bar)
        self.endings = {rank: RankOutcome(rank) for rank in ranks}
        self.busy = set(ranks)
        self.timings: dict[int, Timing] = {}
        self.has_group: dict[int, bool] = {}  # of the ranks that came to the end
        self._idle: dict[int, float] = {}
        self._replied: set[int] = set()
        self._lookout = CellWatchdog(ranks, self.endings, silent)
        self._interrupt = Interrupt(ranks, self.endings, self._lookout)
        self._poller, self._ends = zmq.Poller(), zmq.Poller()
        self._sockets = {}
        for rank, process in ranks.items():
            for socket in (process.iopub, process.shell, process.process.sentinel):
                self._poller.register(socket, zmq.POLLIN)
                self._sockets[socket] = rank
            self._ends.register(process.shell, zmq.POLLIN)
            self._ends.register(process.process.sentinel, zmq.POLLIN)
        self._short_until = time.monotonic() + SHORT
        self._send = lambda process: process.execute(code, silent, number, **options)
        self._ids: dict[int, str] = {}

    def run(self, world_size: int) -> CellReport:
        """Run to the end; never raises for what the ranks do, nor for an interrupt."""
        with interrupts() as seen:
            self._ids = {rank: self._send(process) for rank, process in self.ranks.items()}
            while self.busy:
                self._read()
                self.merger.flush(seconds=SHOW)
                self.screen.flush()
                if seen:
                    self._stop_busy(len(seen))
                else:
                    self._lookout.look(self.busy)
            self._show_the_rest(seen)
            self._lookout.compare(bool(seen))
        return CellReport(self.endings, world_size, bool(seen), self.group_lost)

    @property
    def group_lost(self) -> bool:
        """Whether the ranks may no longer agree on what was communicated."""
        failed = self._lookout.failed_at is not None
        alike = failed_alike(list(self.endings.values()))
        return bool(self._lookout.cut_at) or bool(self._interrupt.began) or (failed and not alike)

    # reading

    def _read(self) -> None:
        """Wait for something to read, and read it.

        A short cell's output is read when the cell has ended: being woken for every line would
        cost more than the cell.
        """
        if time.monotonic() < self._short_until:
            ready = dict(self._ends.poll(10)) or self._sockets
        else:
            ready = dict(self._poller.poll(50))
        for rank in {self._sockets[socket] for socket in ready} & self.busy:
            self._read_rank(rank)

    def _read_rank(self, rank: int) -> None:
        process = self.ranks[rank]
        alive = process.alive  # before reading: what it said last must not be lost
        for socket in (process.iopub, process.shell):
            for message in islice(process.messages(socket), TURN):
                kind = message["msg_type"]
                # What a thread of an earlier cell shows, is shown now.
                if message["parent"] == self._ids[rank] or kind in ("stream", *SHOWN):
                    self._take(rank, kind, message["content"])
        if rank in self._idle and rank in self._replied:
            if self.endings[rank].raised is None:
                self.endings[rank].finished, self.endings[rank].time = True, time.time()
            self._end(rank)
        elif not alive:
            ending = self.endings[rank]
            ending.gone, ending.time = ending.gone or process.ending(), time.time()
            ending.crash = process.crash_report()
            self._lookout.failed()
            self._end(rank)

    def _take(self, rank: int, kind: str, content: dict) -> None:
        if kind == "stream":
            self._lookout.heard()
            self.merger.add(rank, content["name"], content["text"])
        elif kind in SHOWN:
            self.merger.add_item(rank, _display_item(kind, content))
        elif kind == "clear_output":
            self.merger.flush(everything=True)
            self.screen.clear(content["wait"])
        elif kind == "execute_reply":
            self._replied.add(rank)
            self._ends.unregister(self.ranks[rank].shell)
            self._ends.register(self.ranks[rank].iopub, zmq.POLLIN)  # the end of its output
            self.has_group[rank] = content.get("group", True)
            if timing := content.get("timing"):
                self.timings[rank] = Timing(**timing)
            if content["status"] != "ok":
                ended(self.endings[rank], content)
                self._lookout.failed()
        elif kind == "status" and content["execution_state"] == "idle":
            self._idle[rank] = time.monotonic()

    def _end(self, rank: int) -> None:
        self.busy.discard(rank)
        self.merger.finish(rank)
        process = self.ranks[rank]
        for socket in (process.iopub, process.shell, process.process.sentinel):
            self._poller.unregister(socket)
            if socket in self._ends:
                self._ends.unregister(socket)

    def _stop_busy(self, requests: int) -> None:
        """The reader interrupts."""
        self.merger.shorten(LEFT)
        self._interrupt.stop(self.busy, requests)
        for rank in self.busy & self._idle.keys():
            if time.monotonic() - self._idle[rank] > LOST:  # it sends no reply: ipykernel got lost
                self.endings[rank].raised = Raised("KeyboardInterrupt", "")
                self._lookout.failed()
                self._end(rank)

    def _show_the_rest(self, seen: list[float]) -> None:
        """The cell has ended; a reader who waits for the end of its output may interrupt that."""
        while not self.merger.flush(everything=True, seconds=SHOW):
            self.screen.flush()
            if seen:
                self.merger.shorten(LEFT)
        self.screen.close()


def _display_item(kind: str, content: dict) -> Item:
    display = {
        "data": content["data"],
        "metadata": content["metadata"],
        "update": kind == "update_display_data",
        "display_id": content.get("transient", {}).get("display_id"),
    }
    return Item("display", json.dumps(display, sort_keys=True))
