"""Private directories of a notebook; those that a killed notebook left are removed by the next.

Processes that are started for a directory carry its name in their environment, and so does what
they start: nothing that leaves its session or its process group is lost sight of.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

LONGEST = 80  # characters: a unix socket's path has room for 107 bytes, of which we add some
SHORT = "/tmp"  # where directories are if the temporary directory's own path is longer
MARK = "RANKBOOK_DIRECTORY"


def private_directory(kind: str) -> Path:
    """A new directory (mode 0700) for this process; its name tells the `kind` and our process."""
    prefix = f"rankbook-{kind}-"
    for place in {tempfile.gettempdir(), SHORT}:
        _remove_what_the_killed_left(Path(place), prefix)
    path = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")
    if len(path) > LONGEST:
        Path(path).rmdir()
        path = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=SHORT)
    return Path(path)


def end_marked(directory: Path | str) -> None:
    """End every process that carries the mark of `directory`, but for this one."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it ended, or is another user's
            if process.pid != os.getpid() and process.environ().get(MARK) == str(directory):
                process.kill()


def _remove_what_the_killed_left(place: Path, prefix: str) -> None:
    for path in place.glob(f"{prefix}*-*"):
        pid = path.name.removeprefix(prefix).split("-")[0]
        gone = pid.isdigit() and not psutil.pid_exists(int(pid))
        with suppress(FileNotFoundError):  # another notebook may be removing it, too
            if gone and path.stat().st_uid == os.getuid():
                end_marked(path)
                shutil.rmtree(path, ignore_errors=True)
