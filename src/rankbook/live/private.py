"""Private directories of a notebook; those that a killed notebook left are removed by the next."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

LONGEST = 80  # characters: a unix socket's path has room for 107 bytes, of which we add some


def private_directory(kind: str) -> Path:
    """A new directory (mode 0700) for this process; its name tells the `kind` and our process."""
    prefix = f"rankbook-{kind}-"
    _remove_what_the_killed_left(prefix)
    path = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")
    if len(path) > LONGEST:
        Path(path).rmdir()
        path = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir="/tmp")
    return Path(path)


def _remove_what_the_killed_left(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*-*"):
        pid = path.name.removeprefix(prefix).split("-")[0]
        gone = pid.isdigit() and not psutil.pid_exists(int(pid))
        with suppress(FileNotFoundError):  # another notebook may be removing it, too
            if gone and path.stat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)
