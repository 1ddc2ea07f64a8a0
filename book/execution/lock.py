"""One build at a time in a checkout; who waits says for whom."""

import fcntl
import os
from datetime import datetime
from pathlib import Path
from typing import IO


class Locked:
    """Use in a ``with``: holds the lock file `path`, waits for whoever has it."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._file: IO = self._path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            print(f"Waiting for another build in this checkout: {self._file.read()}", flush=True)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}, since {datetime.now():%H:%M:%S}")
        self._file.flush()

    def __exit__(self, *_) -> None:
        self._file.close()
