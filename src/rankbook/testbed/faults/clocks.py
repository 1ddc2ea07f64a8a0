"""Wall clocks that can be set, one for each node of a job: what their Python processes see.

Linux lets a namespace have its own monotonic clock, but not its own time of day. So the processes
are started with `HOOK` as their sitecustomize: time.time and datetime.now add what stands in the
node's file. Time-outs do not move, as they are counted by monotonic clocks.
"""

import os
from pathlib import Path

FOLDER, NODE = "RANKBOOK_CLOCKS", "RANKBOOK_NODE"
HOOK = f"""
import datetime, os, time

folder, real_time, real_datetime = os.environ[{FOLDER!r}], time.time, datetime.datetime


def wrong():
    try:
        with open(os.path.join(folder, os.environ.get({NODE!r}, "none"))) as file:
            return float(file.read())
    except FileNotFoundError:
        return 0.0


class Instance(type):
    def __instancecheck__(cls, value):
        return isinstance(value, real_datetime)


class Shifted(real_datetime, metaclass=Instance):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=wrong())


Shifted.__module__, Shifted.__qualname__ = "datetime", "datetime"  # agents send it, pickled
time.time = lambda: real_time() + wrong()
datetime.datetime = Shifted
"""


class Clocks:
    """The clocks of a session's nodes; `folder` is where they stand."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(mode=0o700)
        (folder / "sitecustomize.py").write_text(HOOK, encoding="utf-8")

    def environment(self, given: dict[str, str]) -> dict[str, str]:
        """`given`, for a process whose children's clocks are to be ours."""
        path = os.pathsep.join(filter(None, [str(self.folder), given.get("PYTHONPATH", "")]))
        return given | {"PYTHONPATH": path, FOLDER: str(self.folder)}

    def set(self, node: str, seconds: float) -> None:
        """Put the clock of `node` forward by so many seconds, back if negative; 0: right."""
        growing = self.folder / f"{node}.new"
        growing.write_text(str(seconds), encoding="utf-8")
        growing.replace(self.folder / node)

    def reset(self) -> None:
        """Put all of them right."""
        for file in self.folder.glob("*"):
            if file.suffix != ".py" and file.is_file():
                file.unlink()
