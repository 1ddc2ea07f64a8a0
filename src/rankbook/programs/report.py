"""What a program says: a bar in the terminal, JSON in a file, one sentence on an error; its end."""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import NoReturn, TextIO


class Progress:
    """A bar on the terminal, for one rank only; a line at each tenth where there is no terminal.

    first, last: the steps that the bar covers, (first, last]. A silent one shows nothing.
    """

    def __init__(self, first: int, last: int, silent: bool = False, out: TextIO | None = None):
        self.first, self.last, self.silent = first, last, silent
        self.out = sys.stderr if out is None else out
        self.live = self.out.isatty()
        self.start, self.tenth = time.monotonic(), 0

    def update(self, step: int, text: str) -> None:
        """Show that `step` is done, and `text`."""
        done = (step - self.first) / max(1, self.last - self.first)
        if self.silent or (not self.live and int(done * 10) == self.tenth):
            return
        self.tenth = int(done * 10)
        left = (time.monotonic() - self.start) * (1 / done - 1) if done else 0.0
        bar = f"{'#' * int(done * 20):20}"
        line = f"[{bar}] {step}/{self.last}  {text}  {left:.0f} s left"
        print(
            f"\r{line}\x1b[K" if self.live else line, end="" if self.live else "\n", file=self.out
        )
        self.out.flush()

    def say(self, text: str) -> None:
        """A line of its own, on standard output; the bar is drawn again with the next step."""
        if not self.silent:
            if self.live:
                print("\r\x1b[K", end="", file=self.out, flush=True)
            print(text, flush=True)


class Log:
    """Records as lines of JSON at the end of a file; without a path, nowhere."""

    def __init__(self, path: Path | None):
        self.file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("a", encoding="utf-8")

    def write(self, **record) -> None:
        """Append `record`; it is in the file when this returns, whatever happens then."""
        if self.file is not None:
            self.file.write(json.dumps(record, default=str) + "\n")
            self.file.flush()


def fail(error: Exception, program: str) -> NoReturn:
    """End this rank with status 2 and one sentence, which rank 0 says for all.

    torchrun ends the others as soon as one has ended, so they give rank 0 time to speak first.
    They speak themselves where it does not end: where the trouble is not rank 0's.
    """
    rank = os.environ.get("RANK", "0")
    if rank != "0":
        time.sleep(5)
    who = program if rank == "0" else f"{program}, rank {rank}"
    print(f"{who}: {error}", file=sys.stderr, flush=True)
    sys.stderr.flush()
    os._exit(2)  # a rank with an open group would wait for the others in its clean-up


def end(status: int = 0) -> NoReturn:
    """End this rank, whose work is done, without Python's own shutdown.

    A group that has not lost every reference when it is destroyed keeps its threads: importing
    ``torch._dynamo`` while it is there, as optimizers and DDP do, is enough (torch 2.13). Such a
    thread of gloo may let go of the tensors of the last collective while Python shuts down, cannot
    get the GIL any more, and aborts the rank: "terminate called without an active exception".
    """
    for worker in multiprocessing.active_children():  # a loader's
        worker.terminate()
        worker.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
