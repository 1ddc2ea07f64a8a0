"""What a program says while it runs: a bar in the terminal, lines of JSON in a file."""

import json
import math
import sys
import time
from pathlib import Path
from typing import TextIO


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
    """Records as lines of JSON at the end of a file; without a path, nowhere. Raises OSError."""

    def __init__(self, path: Path | None):
        self.file = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise OSError(
                f"no log can be kept at {path}: {error.strerror}; name another file"
            ) from error

    def write(self, **record) -> None:
        """Append `record`; it is in the file when this returns, whatever happens then.

        Numbers that JSON does not have, of a run that diverged (NaN, infinity), are null.
        """
        if self.file is not None:
            told = {name: None if diverged(value) else value for name, value in record.items()}
            self.file.write(json.dumps(told, default=str) + "\n")
            self.file.flush()


def diverged(value: object) -> bool:
    """Whether it is a number that is none, or infinite."""
    return isinstance(value, float) and not math.isfinite(value)
