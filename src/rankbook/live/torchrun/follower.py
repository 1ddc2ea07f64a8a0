"""Follows what the ranks of a launch print: torchrun keeps it in one file a rank and stream."""

import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rankbook.live.screen.output import Item, Merger, label
from rankbook.live.torchrun.notes import find_note, read_note, read_notes

CHUNK = 1 << 18  # bytes read from a file at a time
ENOUGH = 1 << 16  # bytes of a file that are shown of what is left when the reader interrupts


class Tail:
    """New text of a growing file, which need not be there yet."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.read_nothing()

    def read_nothing(self) -> None:
        """Open the file if it is there: it stays readable when torchrun removes it."""
        if self._file is None and self._path.exists():
            self._file = self._path.open("rb")

    def read(self) -> str:
        """The text since the last call, at most `CHUNK` bytes of it."""
        self.read_nothing()
        return self._decoder.decode(self._file.read(CHUNK)) if self._file else ""

    def leave_out(self) -> int:
        """Go on near the end of the file; return how many bytes before it will not be read."""
        if self._file is None:
            return 0
        here, end = self._file.tell(), os.fstat(self._file.fileno()).st_size
        if end - here <= ENOUGH:
            return 0
        self._file.seek(end - ENOUGH)
        self._file.readline(CHUNK)  # from the next whole line on
        return self._file.tell() - here

    def close(self) -> None:
        """Forget the file."""
        if self._file is not None:
            self._file.close()


class Attempt:
    """One start of the workers. A restart, or a change of the world's size, makes the next."""

    def __init__(self, show: "Follower"):
        self.workers: dict[int, dict] = {}  # by local rank
        self._show = show
        self._merger: Merger | None = None
        self._tails: dict[tuple[int, str], Tail] = {}

    @property
    def complete(self) -> bool:
        """Whether every worker of this agent has begun."""
        some = next(iter(self.workers.values()), None)
        return some is not None and len(self.workers) == some["local_world_size"]

    def add(self, worker: dict) -> None:
        """A worker began."""
        self.workers[worker["local_rank"]] = worker
        if self._show.shows(worker):
            for stream in ("stdout", "stderr"):
                path = Path(worker["logs"]) / f"{stream}.log"
                self._tails[worker["rank"], stream] = Tail(path)

    def read(self) -> bool:
        """Show what is new; False if nothing was."""
        some, merger = False, self._merged()
        for (rank, stream), tail in self._tails.items():
            if text := tail.read():
                merger.add(rank, stream, text)
                some = True
        merger.flush()
        return some

    def finish(self, hurry: bool = False) -> None:
        """The workers ended: show the rest; of much only the end if they are to `hurry`."""
        for (rank, stream), tail in self._tails.items() if hurry else ():
            if left_out := tail.leave_out():
                self._show.leave_out(rank, stream, left_out)
        while self.read():
            pass
        for rank in {rank for rank, _ in self._tails}:
            self._merged().finish(rank)
        self._merged().flush(everything=True)
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _merged(self) -> Merger:
        """Where lines of several ranks meet; made when all workers are known."""
        if self._merger is None:
            ranks = {rank for rank, _ in self._tails}
            self._merger = Merger(ranks, self._show.emit, self._show.bar)
        return self._merger


class Follower:
    """Everything that a launch prints, as events.

    directory: the launch's. node: its name among several, or "". sink: is called with
    ("stdout" or "stderr", line) for text, and with ("bar", (label, text, complete)).
    """

    def __init__(self, directory: Path, node: str, sink: Callable[[str, object], None]):
        self._directory, self._node, self._sink = directory, node, sink
        self._agent = {
            "stdout": Tail(directory / "agent.out"),
            "stderr": Tail(directory / "agent.err"),
        }
        self._known: set[str] = set()
        self.plan: dict | None = None
        self.attempts: list[Attempt] = []
        self.agent_log = ""
        self.hurry = False  # the reader waits for the end, not for what ranks have printed

    @property
    def workers(self) -> list[dict]:
        """The workers of the latest attempt."""
        return list(self.attempts[-1].workers.values()) if self.attempts else []

    def read(self) -> bool:
        """Show what is new; False if no rank had printed anything."""
        self.plan = self.plan or find_note(self._directory / "plan.json")
        self._read_agent()
        for name, worker in read_notes(self._directory / "workers", self._known).items():
            self._known.add(name)
            self._add(worker)
        ready = self.attempts and self.attempts[-1].complete and not self.hurry
        return bool(ready) and self.attempts[-1].read()

    def finish(self) -> None:
        """The agent ended: show the rest."""
        self.read()
        if self.attempts:
            self.attempts[-1].finish(self.hurry)
        while self._read_agent():
            pass
        for tail in self._agent.values():
            tail.close()

    def shows(self, worker: dict) -> bool:
        """Whether the output of `worker` is ours to show."""
        plan = self._written_plan()
        chosen = plan["local_ranks"]
        here = chosen is None or worker["local_rank"] in chosen
        return bool(worker["logs"]) and plan["follow_ranks"] and here

    def emit(self, ranks: set, item: Item) -> None:
        """For the Merger: a line of `ranks`."""
        self._sink(item.kind, f"{self.label(ranks)} {item.content}")

    def bar(self, rank: int, text: str, complete: bool) -> None:
        """For the Merger: a progress bar of `rank`."""
        self._sink("bar", (self.label({rank}), text, complete))

    def leave_out(self, rank: int, stream: str, size: int) -> None:
        """For an attempt: so many bytes of what a rank printed will not be shown."""
        words = f"... {size / 1e6:.1f} MB of {stream} are left out ..."
        self._sink("stderr", f"{self.label({rank})} {words}")

    def label(self, ranks: set) -> str:
        """What stands before a line of `ranks`."""
        return f"[{self._node}:{label(ranks)[1:]}" if self._node else label(ranks)

    def _add(self, worker: dict) -> None:
        last = self.attempts[-1] if self.attempts else None
        if last is None or worker["local_rank"] in last.workers:
            if last is not None:
                last.finish()
                self._say_restart(worker)
            self.attempts.append(Attempt(self))
        self.attempts[-1].add(worker)

    def _written_plan(self) -> dict:
        """The plan, once there is a worker: it was written before."""
        self.plan = self.plan or read_note(self._directory / "plan.json")
        return self.plan

    def _say_restart(self, worker: dict) -> None:
        of = f"[{self._node}] " if self._node else ""
        self._sink(
            "stderr",
            f"{of}torchrun started the workers again: world size {worker['world_size']}, "
            f"restart {worker['restart_count']} of {self._written_plan()['max_restarts']}",
        )

    def _read_agent(self) -> bool:
        """torchrun's own words: its log is kept for a report, unless the ranks print there too."""
        some = False
        for stream, tail in self._agent.items():
            text = tail.read()
            some = some or bool(text)
            if stream == "stderr":
                self.agent_log += text
            if text and (stream == "stdout" or not (self.plan or {}).get("follow_ranks", True)):
                self._sink(stream, text.removesuffix("\n"))
        return some
