"""The recorder: once a second, a rank writes down where it is, for `rankbook autopsy` to read.

A thread writes one small file; it also runs while the program hangs in a collective or in a system
call, which let other threads run. What is killed leaves its last file.
"""

import atexit
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from multiprocessing import util
from pathlib import Path
from typing import Any

from rankbook.autopsy import process, stacks
from rankbook.core.atomic import hand_over

VARIABLE = "RANKBOOK_AUTOPSY"
SHARE = 50  # a snapshot takes one part in so many of the time, at most
LONGEST = 5.0  # seconds that the program's end waits for a look that is on its way
_started: "Recorder | None" = None


def record(directory: str | Path | None = None, seconds: float = 1.0) -> Path | None:
    """Have this process record what an autopsy needs, until it ends; return its file.

    directory: where all ranks write, the same for all, one for each run; `$RANKBOOK_AUTOPSY` if
    it is not given, and without either nothing is recorded and None returned. seconds: between
    two looks. Nothing is written before the process knows its rank. A second call changes nothing.
    Raises OSError where a `directory` that is given cannot be made; a variable that is wrong is
    said on stderr, and the program runs.
    """
    global _started
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    folder = Path(directory or os.environ.get(VARIABLE, ""))
    if _started is None or _started.pid != os.getpid():  # a fork keeps the object, not the thread
        if folder == Path():
            return None
        _have_nccl_dump(folder)
        _started = Recorder(folder, seconds)
        _started.begin()
    return _started.path


def failed(error: BaseException) -> None:
    """The program ends with `error`: for those who catch it, so that Python does not show it."""
    if _started is not None and _started.pid == os.getpid():
        _started._raised(error)


def ended() -> None:
    """The program has done its work: for those who leave without Python's own shutdown."""
    if _started is not None and _started.pid == os.getpid():
        _started._last_words({"how": "ended", "time": time.time()})


def _have_nccl_dump(directory: Path) -> None:
    """NCCL's watchdog writes its recorder out when a collective times out: there, too.

    Source: https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
    """
    prefix = str(directory.resolve() / "nccl_trace_rank_")
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):  # 2.13; before
        os.environ.setdefault(name, prefix)
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")


class Recorder:
    """Writes `path`, again whenever something has changed; its time says when it last looked."""

    def __init__(self, directory: Path, seconds: float):
        self.pid, self.seconds, self.started = os.getpid(), seconds, time.time()
        host = socket.gethostname()
        self.path = directory / f"{host}-{self.pid}-{int(self.started)}.json"
        self._fixed = {
            **{"host": host, "machine": process.machine(), "pid": self.pid, "ppid": os.getppid()},
            **{"born": process.born(self.pid), "started": self.started, "seconds": seconds},
        }
        self._ended: dict[str, Any] | None = None
        self._key: Any = None
        self._since = self.started
        self._last = ""
        self._crash = None
        self._failed = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Look from now on, in a thread of its own, and when the program ends."""
        before = sys.excepthook

        def raised(kind, error, trace):
            self._raised(error)
            before(kind, error, trace)

        sys.excepthook = raised
        atexit.register(self._end)
        threading.Thread(target=self._run, name="rankbook autopsy", daemon=True).start()

    def _run(self) -> None:
        # a process of multiprocessing runs no atexit; what is registered before its start is gone
        finalizer = util.Finalize(None, self._end, exitpriority=100)
        while self._ended is None:
            began = time.thread_time()  # its own work: it may wait long for the interpreter lock
            if not self._try():
                return
            if not finalizer.still_active():
                finalizer = util.Finalize(None, self._end, exitpriority=100)
            time.sleep(max(self.seconds, SHARE * (time.thread_time() - began)))

    def _try(self) -> bool:
        """Look; whether that is worth doing again. What fails is never the program's trouble."""
        try:
            self.look()
        except OSError as error:
            if not self._failed:  # in one write: the interpreter may be about to end
                self._failed = True
                where = self.path.parent
                sys.stderr.write(f"rankbook: {where}: {error.strerror}; nothing is recorded\n")
        except Exception as error:
            self._fixed["trouble"] = f"{type(error).__name__}: {error}"
        return bool(self._last) or not self._failed

    def look(self) -> None:
        """Write where this rank is, if it has a rank; only the time, if nothing has changed."""
        if not self._lock.acquire(timeout=LONGEST):
            return  # a folder that does not answer does not keep the program from its end
        try:
            self._look()
        finally:
            self._lock.release()

    def _look(self) -> None:
        place = process.place()
        if place is None or process.is_loader():
            return
        if self._crash is None:
            self._catch_crashes()
        threads = [] if self._ended else process.threads()  # the interpreter's own, then
        held = process.held_shortly()
        key = (
            threads and threads[0]["frames"],
            held[-1:] and (held[-1].group, held[-1].number),
        )
        if key != self._key:
            self._key, self._since = key, time.time()
        told = {
            **{**self._fixed, **place, "since": self._since, "ended": self._ended},
            **{"threads": threads, "peer": process.peer(), "recorder": process.recorder_is_on()},
            **{"groups": process.groups(), "made": process.groups_made()},
            "entries": [entry.as_dict() for entry in held],
        }
        text = json.dumps(told)
        if text == self._last:
            os.utime(self.path)
        else:
            hand_over(self.path, text)
            self._last = text

    def _catch_crashes(self) -> None:
        """Stacks of a crash, and of the SIGTERM by which torchrun ends a rank, into a file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._crash = self.path.with_suffix(".stacks").open("w")
        if not faulthandler.is_enabled():
            faulthandler.enable(self._crash)
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGTERM, self._crash, all_threads=True, chain=True)

    def _raised(self, error: BaseException | None) -> None:
        if error is None or isinstance(error, SystemExit | KeyboardInterrupt):
            return
        lines = traceback.extract_tb(error.__traceback__)
        frames = [[f.filename, f.lineno, f.name, f.line or "", stacks.is_own(f.filename)]
                  for f in reversed(lines)]  # fmt: skip
        self._last_words({"how": "raised", "type": type(error).__name__,
                          "text": str(error)[:2000], "frames": frames[:stacks.DEPTH],
                          "time": time.time()})  # fmt: skip

    def _end(self) -> None:
        error = sys.exception()  # multiprocessing ends while it is still on its way
        if isinstance(error, SystemExit) and error.code not in (0, None):
            error = error.__context__  # torch's own start_processes has caught it
        self._raised(error)
        self._last_words({"how": "ended", "time": time.time()})

    def _last_words(self, ended: dict[str, Any]) -> None:
        if self._ended is None and self.pid == os.getpid():
            self._ended = ended
            self._try()
